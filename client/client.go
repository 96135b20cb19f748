// Package client appends to, reads and administers the logs of a Strandline cluster over gRPC.
//
//	c, err := client.Dial([]string{"127.0.0.1:7171"})
//	p, err := c.Producer(ctx, "orders")
//	offset, err := p.Append(ctx, []byte("a record"))
//	r, err := c.Reader(ctx, "orders", client.WithStartOffset(offset), client.WithFollow())
//	rec, err := r.Next(ctx)
//
// A Client is safe for concurrent use, and so is a Producer: records of callers that share one
// are batched while a request is in flight. A Reader must be used by one goroutine at a time.
// Every error is an *Error, or io.EOF at the end of a read.
//
// Start with Producer (producer.go) and Reader (reader.go). route.go selects the node for a
// request, and peers.go tracks which node leads a log. Pass the addresses of all nodes to Dial:
// one that is up is enough.
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
	leased  unreleased
}

// Dial returns a client of the nodes at addresses (host:port). One that is up is enough; the
// client finds the leader of each log. It connects when needed, not in Dial. Addresses other than
// loopback are refused without WithCertificates or WithTLS, unless WithInsecure is given.
func Dial(addresses []string, opts ...Option) (*Client, error) {
	o := defaultClientOptions()
	for _, opt := range opts {
		opt(&o)
	}
	if len(addresses) == 0 {
		return nil, &Error{Reason: ErrInvalid.Reason, Message: "a client needs an address"}
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

// Close closes every connection. Close Producers first: otherwise their records in flight fail
// with outcome MaybeDone.
func (c *Client) Close() error {
	c.peers.close()
	return nil
}

// catalog stands for the log of logs in calls that name no log.
const catalog = ""

// repetition is whether a call may be repeated when its answer was lost: if repeating it does no
// harm, or the node recognizes it.
type repetition bool

const (
	once       repetition = false
	repeatedly repetition = true
)

// call makes one unary call to the node that leads log. It looks for that node for as long as
// WithRetryTime permits.
func (a *Admin) call(ctx context.Context, log string, again repetition, do func(context.Context, *grpc.ClientConn) error) error {
	return a.callOn(ctx, toLeader{a.client.peers, log}, again, do)
}

// callOn is like call for another route.
func (a *Admin) callOn(ctx context.Context, on route, again repetition, do func(context.Context, *grpc.ClientConn) error) error {
	return a.try(ctx, on, again, func(ctx context.Context, p *peer) error { return do(ctx, p.conn) })
}

// try does something on the nodes of a route, one after the other, until one has done it.
func (a *Admin) try(ctx context.Context, on route, again repetition, do func(context.Context, *peer) error) error {
	began := time.Now()
	pauses := newPauses()
	var known tries
	for count := 1; ; count++ {
		peer, err := on.connect(ctx)
		if err == nil {
			called := time.Now()
			if err = a.attend(ctx, on, peer, again, do); err == nil {
				if count > 1 {
					a.trouble(nil)
				}
				return nil
			}
			if a.inLine {
				began = began.Add(time.Since(called))
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
		if count >= width && time.Since(began)+pauses.next() > failure.within(a.client.options.retryTime) {
			return known.verdict(failure)
		}
		a.trouble(known.verdict(failure))
		if err := pauses.between(ctx, peer, width); err != nil {
			return cancelled(ctx, known.outcome)
		}
	}
}

// failure converts err to an *Error. A call that ends because the client was closed says so.
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

// Option configures a Client.
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

// WithInsecure permits connections without TLS to addresses other than loopback. Everything on
// them can be read and changed in transit. Default off.
func WithInsecure() Option { return func(o *clientOptions) { o.insecure = true } }

// WithCertificates encrypts every connection with TLS 1.3. authority is a PEM file with the
// authorities whose certificates for the dialled addresses are accepted; empty: those of the
// system. certificate and key are PEM files with the client's identity; empty: none. The files
// are read again when they change, for new connections. Default off.
func WithCertificates(authority, certificate, key string) Option {
	return func(o *clientOptions) {
		o.files = &secure.Files{Authority: authority, Certificate: certificate, Key: key}
	}
}

// WithTLS encrypts every connection according to config. An empty ServerName is replaced by the
// host of the address. config must not be changed afterwards. Default off.
func WithTLS(config *tls.Config) Option { return func(o *clientOptions) { o.tls = config } }

// WithRetryTime sets how long calls of Admin, and opening a Producer or Reader, look for a node
// that can answer. Default 5 s; 0 tries every address once. A node whose certificate is wrong, or
// that refuses the client's certificate, is always tried only once.
func WithRetryTime(d time.Duration) Option {
	return func(o *clientOptions) { o.retryTime = d }
}

// WithDialer makes every connection to a node with dial, for example to use a tunnel, or to
// observe or slow down the traffic. The address is one of those given to Dial, or one that a node
// returned for itself or another node. Default a TCP connection.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(o *clientOptions) { o.dial = dial }
}

// WithStreamsOverGRPC sends appends and reads over gRPC rather than over connections of their
// own: for intermediaries that support only HTTP/2, or to compare the two. Default off: such
// connections are made if the server supports them, and gRPC is used if it does not.
func WithStreamsOverGRPC() Option { return func(o *clientOptions) { o.onlyGRPC = true } }

// WithTroubleHandler calls f with a log and a reason, an *Error, whenever a Producer or Reader of
// the log cannot be opened or cannot continue and tries again, and with nil when it continues. f
// is called from any goroutine, and must return soon. Default none.
func WithTroubleHandler(f func(log string, err error)) Option {
	return func(o *clientOptions) { o.onTrouble = f }
}
