package httpserver

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
)

// linesListener has connections on which a request has at most maxHeaderLines lines: each becomes a hundred
// bytes and more before anybody knows who asks.
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
}

var errLines = errors.New("a request with more lines than are taken")

func (c *linesConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if c.lines.Add(int32(bytes.Count(into[:n], []byte("\n")))) > maxHeaderLines {
		return 0, errLines
	}
	return n, err
}

// answered begins to count again. It is http.Server.ConnState.
func answered(conn net.Conn, state http.ConnState) {
	if c, ok := conn.(*linesConn); ok && state == http.StateIdle {
		c.lines.Store(0)
	}
}
