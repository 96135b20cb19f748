package rpc

import (
	"net"

	"strandline.dev/internal/transport/lean"
)

// TryWriter returns how to write to a connection without waiting; nil: it cannot be done.
func TryWriter(conn net.Conn) lean.TryWrite {
	if socket := socketOf(conn); socket != nil {
		return tryWriter(socket)
	}
	return nil
}

// socketOf is what a connection's writes go to as they are; nil where there is no such
// thing, as with TLS in between.
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
