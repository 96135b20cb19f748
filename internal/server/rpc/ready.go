package rpc

import (
	"io"
	"net"
	"syscall"

	"google.golang.org/grpc/mem"

	"strandline.dev/internal/transport/lean"
)

// ReadOnReady is the method with which gRPC reads a connection, if it has it. It takes a buffer
// from pool only when there are bytes to read, so that an idle connection holds no buffer. An
// encrypted connection holds one while it waits.
func (c *countedConn) ReadOnReady(size int, pool mem.BufferPool) (buffer *[]byte, n int, err error) {
	c.inflow.await()
	if c.ready == nil {
		c.ready = c.readyReader()
	}
	if c.ready == nil {
		buffer = pool.Get(size)
		n, err = c.Conn.Read(*buffer)
		if n == 0 {
			pool.Put(buffer)
			buffer = nil
		}
	} else {
		buffer, n, err = c.ready.read(size, pool)
	}
	if n > 0 {
		data, frames := c.data.count((*buffer)[:n])
		c.inflow.received(n, data, frames)
	}
	return buffer, n, err
}

// readyReader is nil where a socket cannot be read instead of the connection.
func (c *countedConn) readyReader() *readyReader {
	for conn := c.Conn; ; {
		switch under := conn.(type) {
		case *net.TCPConn:
			return newReadyReader(under)
		case interface{ Unread() (net.Conn, []byte) }:
			inner, unread := under.Unread()
			if len(unread) > 0 {
				return nil
			}
			conn = inner
		default:
			return nil
		}
	}
}

// readyReader reads a socket. The fields after try are those of one read.
type readyReader struct {
	raw syscall.RawConn
	try func(socket uintptr) (done bool) // allocated once instead of for each read

	size   int
	pool   mem.BufferPool
	buffer *[]byte
	n      int
	err    error
}

func (r *readyReader) read(size int, pool mem.BufferPool) (*[]byte, int, error) {
	r.size, r.pool, r.buffer, r.n, r.err = size, pool, nil, 0, nil
	err := r.raw.Read(r.try)
	if err == nil {
		err = r.err
	}
	if err == nil && r.n == 0 {
		err = io.EOF
	}
	buffer := r.buffer
	r.pool, r.buffer = nil, nil
	return buffer, r.n, err
}

// TryWriter returns a function that writes to a connection without waiting, or nil if this is not
// possible.
func TryWriter(conn net.Conn) lean.TryWrite {
	if socket := socketOf(conn); socket != nil {
		return tryWriter(socket)
	}
	return nil
}

// socketOf returns the TCP connection to which a connection writes its bytes unchanged, or nil if
// there is none, as with TLS.
func socketOf(conn net.Conn) *net.TCPConn {
	for {
		switch under := conn.(type) {
		case *net.TCPConn:
			return under
		case interface{ WritesTo() net.Conn }:
			conn = under.WritesTo()
		case interface{ Unread() (net.Conn, []byte) }:
			conn, _ = under.Unread()
		default:
			return nil
		}
	}
}
