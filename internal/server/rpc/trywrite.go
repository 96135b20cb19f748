package rpc

import (
	"net"

	"strandline.dev/internal/transport/lean"
)

// TryWriter returns how to write to a connection without waiting; nil: it cannot be done,
// as where TLS is in between.
func TryWriter(conn net.Conn) lean.TryWrite {
	for {
		switch under := conn.(type) {
		case *net.TCPConn:
			return tryWriter(under)
		case interface{ WritesTo() net.Conn }:
			conn = under.WritesTo()
		case interface{ Unread() (net.Conn, []byte) }:
			conn, _ = under.Unread()
		default:
			return nil
		}
	}
}
