package rpc

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
)

// limitedListener closes connections beyond a number as soon as they come, so
// that a client learns at once, instead of waiting in the kernel's queue.
type limitedListener struct {
	net.Listener
	limit  int64
	open   *atomic.Int64 // connections, of all listeners of the server
	atMax  atomic.Bool
	logger *slog.Logger
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.limit {
			return &countedConn{Conn: conn, listener: l}, nil
		}
		l.leave()
		_ = conn.Close()
		// Once each time the limit is reached, not for each refused client.
		if !l.atMax.Swap(true) {
			l.logger.Warn("new gRPC connections are refused: the limit is reached", "limit", l.limit)
		}
	}
}

func (l *limitedListener) leave() {
	if l.open.Add(-1) < l.limit-1 {
		l.atMax.Store(false)
	}
}

type countedConn struct {
	net.Conn
	listener *limitedListener
	closing  sync.Once
}

func (c *countedConn) Close() error {
	c.closing.Do(c.listener.leave)
	return c.Conn.Close()
}
