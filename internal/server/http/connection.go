package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// clientListener limits the header of a request to maxHeaderLines lines: each takes a hundred bytes
// and more before the caller is identified. Bytes after the headers of a request are not counted: a
// refused request closes the connection, so that no further request follows uncounted.
//
// The guard counts its connections by principal, lists them and closes them.
type clientListener struct {
	net.Listener
	callers Callers // nil: callers are not identified
}

// httpPort is the name of the port in the list of connections.
const httpPort = "http"

func (l clientListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &clientConn{Conn: conn}
	if l.callers != nil {
		c.prove, c.left = l.callers.Connected(httpPort, MaxConnections, conn.RemoteAddr(), func() { go func() { _ = c.Close() }() })
	}
	return c, nil
}

type clientConn struct {
	net.Conn
	lines atomic.Int32 // that were received since the last answer
	body  atomic.Bool  // the headers have come
	last  atomic.Bool  // the request that is answered
	blank int          // bytes of the blank line that may have begun, from the line before on
	// prove and left are from guard.Guard.Connected, or nil if callers are not identified.
	prove func(context.Context) error
	left  func()
}

// provedBy records the authenticated caller of a context. It refuses a caller with too many connections.
func (c *clientConn) provedBy(known context.Context) error {
	if c.prove == nil {
		return nil
	}
	return c.prove(known)
}

// Close implements net.Conn. It may be called repeatedly.
func (c *clientConn) Close() error {
	if c.left != nil {
		c.left()
	}
	return c.Conn.Close()
}

var errLines = errors.New("the request has too many lines")

func (c *clientConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if !c.body.Load() && c.lines.Add(c.headerLines(into[:n])) > maxHeaderLines {
		return 0, errLines
	}
	return n, err
}

// headerLines counts lines up to the blank one that ends headers.
func (c *clientConn) headerLines(read []byte) (lines int32) {
	for _, b := range read {
		switch {
		case b == '\n' && c.blank > 0:
			c.blank = 0
			c.body.Store(true)
			return lines
		case b == '\n':
			lines++
			c.blank = 1
		case b != '\r' || c.blank != 1:
			c.blank = 0
		}
	}
	return lines
}

// isLast closes the connection after the answer to its current request, even if the answer has
// begun. c may be nil.
func (c *clientConn) isLast() {
	if c != nil {
		c.last.Store(true)
	}
}

// wasLast reports whether a request followed the last one and was received together with it. c may
// be nil.
func (c *clientConn) wasLast() bool { return c != nil && c.last.Load() }

// farewell closes a connection whose client may still be sending. The client has restTime to read
// its answer.
func (c *clientConn) farewell() {
	type half interface{ CloseWrite() error }
	to, ok := c.Conn.(half)
	if outer, wraps := c.Conn.(interface{ NetConn() net.Conn }); !ok && wraps {
		to, ok = outer.NetConn().(half)
	}
	if ok && to.CloseWrite() == nil && c.SetReadDeadline(time.Now().Add(restTime)) == nil {
		_, _ = io.Copy(io.Discard, c.Conn)
	}
	_ = c.Close()
}

// answered begins to count again, or ends the connection. It is http.Server.ConnState.
func answered(conn net.Conn, state http.ConnState) {
	c, ok := conn.(*clientConn)
	switch {
	case !ok || state != http.StateIdle:
	case c.last.Load():
		c.farewell()
	default:
		c.lines.Store(0)
		c.body.Store(false)
	}
}
