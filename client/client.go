// Package client appends to, reads and administers the logs of a Strandline
// cluster over gRPC.
//
//	c, err := client.Dial([]string{"127.0.0.1:7171"})
//	p, err := c.Producer(ctx, "orders")
//	offset, err := p.Append(ctx, []byte("a record"))
//	r, err := c.Reader(ctx, "orders", client.WithStartOffset(offset), client.WithFollow())
//	rec, err := r.Next(ctx)
//
// A Client is safe for concurrent use, and so is a Producer: callers that share
// one are batched while a request is in flight. A Reader belongs to one
// goroutine. Every error is an *Error, or io.EOF at the end of a read.
//
// Start with Producer (producer.go) and Reader (reader.go). route.go says which
// node is asked, and peers.go what is known of who leads a log. Give Dial the
// addresses of all nodes: any one that is up is enough.
package client

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"google.golang.org/grpc"

	"strandline.dev/internal/transport"
	"strandline.dev/internal/transport/secure"
)

// Client holds the connections to a cluster, one to each node that it needs.
type Client struct {
	options clientOptions
	peers   *peers
	ends    ends
}

// Dial prepares a client of the nodes at addresses (host:port), of which one
// that is up is enough; it finds the leader of each log. It connects when
// something is asked for, not here. Addresses other than loopback are refused
// without WithCertificates or WithTLS, unless WithInsecure is given.
func Dial(addresses []string, opts ...Option) (*Client, error) {
	o := defaultClientOptions()
	for _, opt := range opts {
		opt(&o)
	}
	if len(addresses) == 0 {
		return nil, &Error{Reason: ErrInvalid.Reason, Message: "dial without an address"}
	}
	for _, address := range addresses {
		if err := checkAddress(address, o.anywhere()); err != nil {
			return nil, err
		}
	}
	if o.wrongToken != nil {
		return nil, o.wrongToken
	}
	security, err := o.security()
	if err != nil {
		return nil, err
	}
	return &Client{options: o, peers: newPeers(addresses, o.anywhere(), o.onlyGRPC, security, o.token, o.dial, o.waits)}, nil
}

// Close ends every connection. Close Producers first: what they have in flight
// fails with outcome MaybeDone otherwise.
func (c *Client) Close() error {
	c.peers.close()
	return nil
}

// catalog stands for the log of logs where a call names none.
const catalog = ""

// repetition says whether a call may be made again when its answer was lost: when
// it does no harm to do it twice, or the node recognises it.
type repetition bool

const (
	once       repetition = false
	repeatedly repetition = true
)

// call makes one unary call to the node that leads log, looking for that node
// for as long as WithRetryTime allows.
func (a *Admin) call(ctx context.Context, log string, again repetition, do func(context.Context, *grpc.ClientConn) error) error {
	return a.callOn(ctx, toLeader{a.client.peers, log}, again, do)
}

// callOn is call on another route.
func (a *Admin) callOn(ctx context.Context, on route, again repetition, do func(context.Context, *grpc.ClientConn) error) error {
	deadline := time.Now().Add(a.client.options.retryTime)
	pauses := newPauses()
	var known tries
	for count := 1; ; count++ {
		peer, err := on.connect(ctx)
		if err == nil {
			if err = attend(ctx, a.client.peers, on, peer, again, do); err == nil {
				if count > 1 {
					a.trouble(nil)
				}
				return nil
			}
		}
		failure := known.failed(a.client.failure(err))
		switch {
		case ctx.Err() != nil:
			return cancelled(ctx, known.outcome)
		case !failure.again(), again == once && known.outcome != NotDone:
			return known.verdict(failure)
		}
		width := 1
		if failure.elsewhere() {
			on.elsewhere(peer, failure)
			width = on.width(failure)
		}
		if count >= width && time.Now().Add(pauses.next()).After(deadline) {
			return known.verdict(failure)
		}
		a.trouble(known.verdict(failure))
		if err := pauses.between(ctx, peer, width); err != nil {
			return cancelled(ctx, known.outcome)
		}
	}
}

// failure is what err means to a user of the client. A call that ends because the
// client was closed says so.
func (c *Client) failure(err error) *Error {
	failure := fromRPC(err)
	if !c.peers.isClosed() {
		return failure
	}
	ended := closed("client")
	ended.Outcome = failure.Outcome
	return ended
}

func checkAddress(address string, insecure bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return &Error{Reason: ErrInvalid.Reason, Message: "address " + address + ": " + err.Error()}
	}
	if insecure || transport.IsLoopback(host) {
		return nil
	}
	return &Error{Reason: ErrInvalid.Reason, Message: "address " + address + " is not loopback: it needs WithCertificates or WithTLS, or WithInsecure"}
}

// Option changes how a Client connects.
type Option func(*clientOptions)

type clientOptions struct {
	insecure  bool
	files     *secure.Files
	tls       *tls.Config
	token     *bearer
	retryTime time.Duration
	dial      dialFunc // nil: directly
	onlyGRPC  bool
	onTrouble func(log string, err error)
	waits     waits

	wrongToken error // of WithToken
}

type dialFunc func(ctx context.Context, address string) (net.Conn, error)

func defaultClientOptions() clientOptions {
	return clientOptions{retryTime: 5 * time.Second, onTrouble: func(string, error) {}, waits: defaultWaits()}
}

// WithInsecure allows connections without TLS to addresses other than loopback.
// Everything on them can be read and changed on the way. Default off.
func WithInsecure() Option { return func(o *clientOptions) { o.insecure = true } }

// WithCertificates encrypts every connection with TLS 1.3. authority is a PEM file with
// the authorities by whose certificates nodes are believed, at the addresses they are
// dialled at; empty: those of the system. certificate and key are PEM files that show who
// the client is; empty: nobody. The files are read again when they change, for the next
// connections. Default off.
func WithCertificates(authority, certificate, key string) Option {
	return func(o *clientOptions) {
		o.files = &secure.Files{Authority: authority, Certificate: certificate, Key: key}
	}
}

// WithTLS encrypts every connection as config says. ServerName, if it is empty, is the
// host of the address. It must not be changed afterwards. Default off.
func WithTLS(config *tls.Config) Option { return func(o *clientOptions) { o.tls = config } }

// WithRetryTime sets how long calls of Admin, and the opening of a Producer or
// Reader, keep looking for a node that can answer. Default 5 s; 0 tries every
// address once.
func WithRetryTime(d time.Duration) Option {
	return func(o *clientOptions) { o.retryTime = d }
}

// WithDialer makes every connection to a node with dial: to go through a tunnel, or
// to watch or to slow down what is sent. The address is one of those given to Dial,
// or one that a node gave for itself or another node. Default a TCP connection.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(o *clientOptions) { o.dial = dial }
}

// WithStreamsOverGRPC makes no connections of their own for appends and reads: for what
// lies between and knows HTTP/2 alone, or to compare the two. Default off: they are
// made where a server takes them, and gRPC is used where it does not.
func WithStreamsOverGRPC() Option { return func(o *clientOptions) { o.onlyGRPC = true } }

// WithTroubleHandler calls f with a log and a reason, an *Error, whenever a Producer or
// Reader of it cannot be opened or continue and tries again, and with nil when it
// continues. Calls come from any goroutine, and f must return soon. Default none.
func WithTroubleHandler(f func(log string, err error)) Option {
	return func(o *clientOptions) { o.onTrouble = f }
}
