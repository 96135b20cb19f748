package httpserver

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
)

// linesListener has connections on which a request has at most maxHeaderLines lines: each becomes a hundred
// bytes and more before anybody knows who asks. What is behind the headers of a request is not counted: requests that
// are refused end the connection, so that no other one follows them unseen.
type linesListener struct{ net.Listener }

func (l linesListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &linesConn{Conn: conn}, nil
}

type linesConn struct {
	net.Conn
	lines atomic.Int32 // that were received since the last answer
	body  atomic.Bool  // the headers have come
	blank int          // bytes of the blank line that may have begun, from the line before on
}

var errLines = errors.New("a request with more lines than are taken")

func (c *linesConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if !c.body.Load() && c.lines.Add(c.headerLines(into[:n])) > maxHeaderLines {
		return 0, errLines
	}
	return n, err
}

// headerLines counts lines up to the blank one that ends headers.
func (c *linesConn) headerLines(read []byte) (lines int32) {
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

// answered begins to count again. It is http.Server.ConnState.
func answered(conn net.Conn, state http.ConnState) {
	if c, ok := conn.(*linesConn); ok && state == http.StateIdle {
		c.lines.Store(0)
		c.body.Store(false)
	}
}
