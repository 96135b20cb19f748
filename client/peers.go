package client

import (
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"strandline.dev/internal/transport"
	"strandline.dev/internal/transport/lean"
	"strandline.dev/internal/transport/wire"
)

// peers knows the nodes and, as far as answers have said so, the leader of each log.
type peers struct {
	addresses []string // as given to Dial; never changes
	anywhere  bool     // addresses other than loopback are permitted
	onlyGRPC  bool
	security  credentials.TransportCredentials
	token     *bearer
	dial      dialFunc // never nil
	waits     waits
	near      near
	open      context.Context // ends with close
	end       context.CancelFunc

	mu     sync.Mutex
	closed bool
	known  map[string]*peer // by address
	leads  map[string]*lead // by log
}

// lead is the node that is believed to lead a log.
type lead struct {
	address string
	named   bool // a node has named it; otherwise it is only the next to be asked
	turn    int  // next of the dialled addresses to ask when the leader is not known
	hops    int  // hints followed in a row
	moved   time.Time
}

// maxHops bounds the hints that are followed in a row before a dialled address is tried again:
// nodes that know too little can refer to each other.
const maxHops = 2

// hopsForgotten is how long a lead must last before hints are followed again.
const hopsForgotten = time.Second

// leanAgain is how long only gRPC is used with a server that supports only gRPC.
const leanAgain = time.Minute

// peer is one node.
type peer struct {
	address string
	conn    *grpc.ClientConn
	streams *lean.Client
	token   *bearer
	dialer  dialFunc
	open    context.Context // ends with close

	// leanFrom is when a separate connection is next tried for a stream, in Unix nanoseconds: a
	// server that supports only gRPC may be replaced by a newer one.
	leanFrom atomic.Int64

	// avoidUntil is when hints to it are followed again, in Unix nanoseconds, after it was given up
	// for being silent.
	avoidUntil atomic.Int64

	close func() // ends all calls and streams

	hearing sync.Mutex // held while a reader asks whether the node responds
	asked   time.Time  // when that was
	heard   bool       // it answered

	mu        sync.Mutex
	dialError error // error of the last attempt to connect
}

func newPeers(addresses []string, anywhere, onlyGRPC bool, security credentials.TransportCredentials, token *bearer, dial dialFunc, waits waits) *peers {
	if dial == nil {
		dial = dialDirectly
	}
	open, end := context.WithCancel(context.Background())
	return &peers{
		open: open, end: end,
		addresses: addresses, anywhere: anywhere, onlyGRPC: onlyGRPC, security: security, token: token, dial: dial, waits: waits,
		known: make(map[string]*peer), leads: make(map[string]*lead),
	}
}

func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.end()
	for _, peer := range p.known {
		peer.close()
	}
}

func (p *peers) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// connect returns the node that leads log, as far as known, once it is connected. With an error
// nothing has been sent; the peer is nil only if it could not even be tried.
func (p *peers) connect(ctx context.Context, log string) (*peer, error) {
	p.mu.Lock()
	address := p.lead(log).address
	p.mu.Unlock()
	return p.connectTo(ctx, address)
}

// connectPatience is how long a node may take to accept a connection while there are others to
// try: some round trips between continents. Connecting continues in the background.
var connectPatience = time.Second

// connectTo is like connect for one node.
func (p *peers) connectTo(ctx context.Context, address string) (*peer, error) {
	peer, err := p.at(address)
	if err != nil {
		return nil, err
	}
	patient := ctx
	if len(p.addresses) > 1 {
		var cancel context.CancelFunc
		patient, cancel = context.WithTimeout(ctx, connectPatience)
		defer cancel()
	}
	for {
		state := peer.conn.GetState()
		switch state {
		case connectivity.Ready:
			return peer, nil
		case connectivity.TransientFailure:
			return peer, peer.whyNot()
		case connectivity.Shutdown:
			return peer, closed("client")
		case connectivity.Idle:
			peer.conn.Connect()
		}
		switch {
		case peer.conn.WaitForStateChange(patient, state):
		case ctx.Err() == nil:
			return peer, unreachable(NotDone, address+" does not accept a connection at the moment")
		default:
			return peer, cancelled(ctx, NotDone)
		}
	}
}

// at returns the node at an address.
func (p *peers) at(address string) (*peer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, closed("client")
	}
	if known, ok := p.known[address]; ok {
		return known, nil
	}
	made, err := newPeer(address, p.security, p.token, p.dial)
	if err != nil {
		return nil, &Error{Reason: ErrInvalid.Reason, Message: "connect to " + address + ": " + err.Error()}
	}
	if p.onlyGRPC {
		made.leanFrom.Store(math.MaxInt64)
	}
	p.known[address] = made
	return made, nil
}

// lead returns what is known about a log's leader. The mutex is held.
func (p *peers) lead(log string) *lead {
	l, ok := p.leads[log]
	if !ok {
		l = &lead{address: p.addresses[0]}
		p.leads[log] = l
	}
	return l
}

// named reports whether a node has named the leader of log, and nothing has contradicted it
// since.
func (p *peers) named(log string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lead(log).named
}

// prefer records the named leader of log.
func (p *peers) prefer(log, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usable(address) {
		l := p.lead(log)
		l.address, l.named = address, true
	}
}

// usable reports whether a hint is worth following. It is not if the node just could not be
// reached or did not answer, or if the hint is "here" from a node that does not know its own
// address. The mutex is held.
func (p *peers) usable(hint string) bool {
	if hint == "" || checkAddress(hint, p.anywhere) != nil {
		return false
	}
	if host, _, _ := net.SplitHostPort(hint); transport.IsWildcard(host) {
		return false
	}
	known, ok := p.known[hint]
	return !ok || known.conn.GetState() != connectivity.TransientFailure && !known.isAvoided()
}

// lookElsewhere records that the node tried last does not serve log. The next one is the node
// that it named, or else the next dialled address. If several callers tried the same node in
// vain, only the first moves on.
func (p *peers) lookElsewhere(log string, tried *peer, hint string) {
	if tried == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lead(log)
	if l.address != tried.address {
		return
	}
	now := time.Now()
	if now.Sub(l.moved) > hopsForgotten {
		l.hops = 0
	}
	l.moved = now
	if hint != tried.address && l.hops < maxHops && p.usable(hint) {
		l.address, l.named = hint, true
		l.hops++
		return
	}
	l.named, l.hops = false, 0
	for range p.addresses {
		l.turn = (l.turn + 1) % len(p.addresses)
		if l.address = p.addresses[l.turn]; l.address != tried.address {
			return
		}
	}
}

// gRPC's windows and buffers, chosen with BenchmarkRead on two cores over loopback: a stream
// window of 1 MiB gave 1.0 GB/s, 4 MiB gave 1.7, and 1.9 with a read buffer of 128 KiB instead of
// 32; further increases of either were within the noise. The stream window is also the memory
// that a reader that stops reading takes.
const (
	streamWindow     = 4 << 20
	connectionWindow = 8 << 20
	writeBufferSize  = 64 << 10
	readBufferSize   = 128 << 10
	maxReceiveSize   = 64 << 20
)

func newPeer(address string, security credentials.TransportCredentials, token *bearer, dial dialFunc) (*peer, error) {
	p := &peer{address: address, token: token, dialer: dial}
	security = noted{security, p}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(security),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
		grpc.WithContextDialer(p.dial),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 250 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithWriteBufferSize(writeBufferSize),
		grpc.WithReadBufferSize(readBufferSize),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec), grpc.MaxCallRecvMsgSize(maxReceiveSize)),
	}
	if token != nil {
		options = append(options, grpc.WithUnaryInterceptor(token.call), grpc.WithStreamInterceptor(token.stream))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, err
	}
	p.conn = conn
	open, end := context.WithCancel(context.Background())
	p.open, p.close = open, func() {
		end()
		_ = conn.Close()
	}
	p.streams = &lean.Client{
		Dial: func(ctx context.Context) (net.Conn, error) {
			conn, err := p.dialer(ctx, address)
			if err != nil {
				return nil, err
			}
			encrypted, _, err := security.ClientHandshake(ctx, address, conn)
			if err != nil {
				_ = conn.Close()
			}
			return encrypted, err
		},
		Codec: wire.Codec, MaxMessage: maxReceiveSize,
	}
	return p, nil
}

// stream opens a stream: on a connection of its own, or over gRPC if the server does not support
// that. It lasts as long as the context and the peer.
func (p *peer) stream(ctx context.Context, desc *grpc.StreamDesc, method string) (grpc.ClientStream, error) {
	if now := time.Now(); now.UnixNano() >= p.leanFrom.Load() {
		ctx, cancel := context.WithCancel(ctx)
		stream, err := p.token.open(ctx, func(ctx context.Context) (grpc.ClientStream, error) { return p.streams.NewStream(ctx, method) })
		if err == nil {
			closing := context.AfterFunc(p.open, cancel)
			context.AfterFunc(ctx, func() { closing() })
			return stream, nil
		}
		cancel()
		if !errors.Is(err, lean.ErrNotSpoken) {
			return nil, err
		}
		p.leanFrom.Store(now.Add(leanAgain).UnixNano())
	}
	return p.conn.NewStream(ctx, desc, method)
}

func (p *peer) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := p.dialer(ctx, address)
	p.note(err)
	return conn, err
}

// note records the error of the last attempt to connect.
func (p *peer) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialError = err
}

func dialDirectly(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// whyNot returns why there is no connection.
func (p *peer) whyNot() *Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dialError != nil {
		e := unreachable(NotDone, p.dialError.Error())
		e.lasting = lasts(p.dialError)
		e.Retryable = !e.lasting
		if errors.Is(p.dialError, syscall.ECONNREFUSED) {
			e.cause = syscall.ECONNREFUSED // only this one: a timeout of the dialer is not one of the caller's context
		}
		return e
	}
	return unreachable(NotDone, p.address+" accepts the connection and closes it: it is not a gRPC server, requires TLS, or has as many connections as it accepts")
}
