package rpc

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
)

// limitedListener closes connections beyond a limit as soon as they arrive, so that a client gets
// an error immediately instead of waiting in the kernel's queue. The last connections below the
// limit are reserved.
type limitedListener struct {
	net.Listener
	limit    int64 // with those that are reserved
	reserved int64
	open     *atomic.Int64 // connections, of all listeners of the server
	inflow   *budget.Inflow
	atMax    atomic.Bool
	logger   *slog.Logger
	callers  Callers // nil: callers are not identified
	unproved *Unproved

	mu sync.Mutex
	// kept are the reserved connections that are open, the oldest first.
	kept []*reservedConn
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		counted := &countedConn{Conn: conn, listener: l, inflow: newInflow(l.inflow)}
		switch open := l.open.Add(1); {
		case open <= l.limit-l.reserved || l.makeRoom(conn):
			counted.count(int(l.limit - l.reserved))
			if counted.awaitProof() {
				return counted, nil
			}
		case l.reserved > 0:
			l.warn()
			if reserved := l.reserve(counted); reserved != nil {
				return reserved, nil
			}
		default:
			l.warn()
		}
		_ = counted.Close()
	}
}

// makeRoom closes a connection whose client must authenticate and has not.
func (l *limitedListener) makeRoom(conn net.Conn) bool {
	return l.callers != nil && l.callers.Enforced() && l.unproved.MakeRoom(conn.RemoteAddr())
}

// reserve makes c one of the reserved connections, or returns nil. If all are in use, it closes the
// oldest one of the host with the most, so that a client that connects repeatedly does not block
// others. For a new connection from the same host, the old one must have lasted reservedLeast.
func (l *limitedListener) reserve(c *countedConn) *reservedConn {
	host, _, _ := net.SplitHostPort(c.Conn.RemoteAddr().String())
	r := &reservedConn{countedConn: c, host: host, since: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if int64(len(l.kept)) >= l.reserved {
		held, most := map[string]int{}, 0
		for i, other := range l.kept {
			held[other.host]++
			if held[other.host] > held[l.kept[most].host] {
				most = i
			}
		}
		most = slices.IndexFunc(l.kept, func(other *reservedConn) bool { return other.host == l.kept[most].host })
		out := l.kept[most]
		if held[host] >= held[out.host] && time.Since(out.since) < reservedLeast {
			return nil
		}
		l.kept = slices.Delete(l.kept, most, most+1)
		go func() { _ = out.Close() }()
	}
	l.kept = append(l.kept, r)
	r.end = time.AfterFunc(reservedLife, func() { _ = r.Close() })
	return r
}

// warn logs once each time the limit is reached, not for each refused client.
func (l *limitedListener) warn() {
	if !l.atMax.Swap(true) {
		l.logger.Warn("new gRPC connections are refused: the limit is reached", "limit", l.limit)
	}
}

func (l *limitedListener) leave() {
	if l.open.Add(-1) < l.limit-l.reserved-1 {
		l.atMax.Store(false)
	}
}

type countedConn struct {
	net.Conn
	listener *limitedListener
	inflow   *inflow
	data     dataCounter
	ready    *readyReader // nil until it is used, or if it cannot be
	closing  sync.Once
	closed   atomic.Bool // set before Close ends what there is
	proved   atomic.Bool // a call has authenticated the client
	late     atomic.Pointer[time.Timer]
	// entered ends its place among unauthenticated connections; nil: it has none.
	entered atomic.Pointer[func()]
	// prove and left are from Callers.Connected; nil: callers are not identified.
	prove func(context.Context) error
	left  func()
}

// grpcPort is the name of the port in lists of connections.
const grpcPort = "grpc"

// count counts the connection among the most connections of the port.
func (c *countedConn) count(most int) {
	if callers := c.listener.callers; callers != nil {
		c.prove, c.left = callers.Connected(grpcPort, most, c.Conn.RemoteAddr(), func() { go func() { _ = c.Close() }() })
	}
}

// provedBy records that the caller of a context has authenticated. Its error refuses a caller with
// too many connections; awaitProof then closes the connection, unless that changes.
func (c *countedConn) provedBy(known context.Context) error {
	if c.prove != nil {
		if err := c.prove(known); err != nil {
			return err
		}
	}
	if !c.proved.Swap(true) {
		c.leaveUnproved()
	}
	return nil
}

func (c *countedConn) leaveUnproved() {
	if entered := c.entered.Swap(nil); entered != nil {
		(*entered)()
	}
}

// proveTime is how long a client may keep a connection without authenticating, if it must
// authenticate. gRPC's own services, such as the health service, answer it meanwhile.
const proveTime = 10 * time.Second

// awaitProof closes the connection after proveTime if its client must authenticate and has not. It
// returns false if there are too many such connections and this one must be closed immediately.
func (c *countedConn) awaitProof() bool {
	l, callers := c.listener, c.listener.callers
	if callers == nil {
		return true
	}
	if known, err := callers.Call(context.Background(), c.RemoteAddr(), ""); err == nil && callers.Proved(known) && c.provedBy(known) == nil {
		return true
	}
	if callers.Enforced() && l.unproved.Crowded(int(l.limit-l.reserved)) && !l.makeRoom(c.Conn) {
		return false
	}
	entered := l.unproved.Enter(c.Conn.RemoteAddr(), func() { go func() { _ = c.Close() }() })
	c.entered.Store(&entered)
	c.late.Store(time.AfterFunc(proveTime, func() {
		switch {
		case c.proved.Load():
		case callers.Enforced():
			_ = c.Close()
		default: // it may have to later
			if late := c.late.Load(); late != nil {
				late.Reset(proveTime)
			}
		}
	}))
	if c.closed.Load() { // by an administrator, since it is counted; Close may have come before there was what it ends
		c.endProof()
	}
	return true
}

// endProof undoes awaitProof, which would otherwise keep the connection in memory.
func (c *countedConn) endProof() {
	c.leaveUnproved()
	if late := c.late.Swap(nil); late != nil {
		late.Stop()
	}
}

func (c *countedConn) Read(into []byte) (int, error) {
	c.inflow.await()
	n, err := c.Conn.Read(into)
	data, frames := c.data.count(into[:n])
	c.inflow.received(n, data, frames)
	return n, err
}

// WritesTo returns the connection that writes go to unchanged.
func (c *countedConn) WritesTo() net.Conn { return c.Conn }

func (c *countedConn) Close() error {
	c.closing.Do(func() {
		c.closed.Store(true)
		c.endProof()
		c.listener.leave()
		c.inflow.close()
		if c.left != nil {
			c.left()
		}
	})
	return c.Conn.Close()
}

// connAddr is a remote address that knows its connection: gRPC hands it on to the
// handlers.
type connAddr struct {
	net.Addr
	conn *countedConn
}

// Unwrap is the address as the connection below knows it.
func (a connAddr) Unwrap() net.Addr { return a.Addr }

// ProvedBy implements Prover.
func (a connAddr) ProvedBy(known context.Context) error { return a.conn.provedBy(known) }

// Prover is the address of a client on a connection that records the principals authenticated on it, see Callers.Connected.
type Prover interface {
	ProvedBy(known context.Context) error
}

func (c *countedConn) RemoteAddr() net.Addr { return connAddr{c.Conn.RemoteAddr(), c} }

// Disconnect closes the connection of the call with ctx. gRPC has no other way to release data that
// a client does not read.
func Disconnect(ctx context.Context) {
	if from, ok := peer.FromContext(ctx); ok {
		switch a := from.Addr.(type) {
		case connAddr:
			_ = a.conn.Close()
		case Disconnecter:
			a.Disconnect()
		}
	}
}

// Disconnecter is the address of a client on another port that can close its connection.
type Disconnecter interface{ Disconnect() }

// reservedConn is one of the reserved connections. gRPC passes its remote address to the handlers,
// which recognize it by the type of the address.
type reservedConn struct {
	*countedConn
	host  string // of the client
	since time.Time
	end   *time.Timer
}

type reservedAddr struct{ net.Addr }

// Unwrap is the address as the connection below knows it.
func (a reservedAddr) Unwrap() net.Addr { return a.Addr }

func (c *reservedConn) RemoteAddr() net.Addr { return reservedAddr{c.Conn.RemoteAddr()} }

func (c *reservedConn) Close() error {
	l := c.listener
	l.mu.Lock()
	c.end.Stop()
	l.kept = slices.DeleteFunc(l.kept, func(other *reservedConn) bool { return other == c })
	l.mu.Unlock()
	return c.countedConn.Close()
}

// admitStream refuses streams on reserved connections, and identifies the callers of the others.
func (s *Server) admitStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if from, ok := peer.FromContext(stream.Context()); ok {
		if _, reserved := from.Addr.(reservedAddr); reserved {
			return StatusOf(stream.Context(), record.Refuse(record.Busy,
				"all %d connections that this node takes are taken; the last ones are for calls only, not for streams", s.options.MaxConnections))
		}
	}
	return s.identified(srv, stream, info.FullMethod, handler)
}
