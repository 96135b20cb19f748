package secure

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/identity"
)

// errTooMuch is the error that ends the handshake of a client that has sent too much.
var errTooMuch = errors.New("the client sent too many bytes before authenticating")

// conn is the socket of an encrypted connection.
type conn struct {
	net.Conn
	// These are changed by the goroutine of the handshake alone, until it hands the
	// connection over.
	handshaking bool
	heard       bool // the client has sent something
	held        bool // it waited for its turn so long that the client may have given up
	left        int  // bytes that the client may still send before the handshake ends

	head []byte // what was read before
	// logins slows down those of the address where they fail.
	logins *failing
	// principal is set in the handshake and not changed afterwards.
	principal identity.Principal
	// unproved is set while the client has shown no certificate, token or password.
	unproved atomic.Bool
	// late closes the connection if it is still unproved. It is nil if the client has shown a
	// certificate.
	late atomic.Pointer[time.Timer]
}

// await limits the time and the bytes of a client without a certificate until Proved is called.
// The limits are those of a handshake.
func (c *conn) await() {
	c.left = handshakeBytes
	c.unproved.Store(true)
	c.late.Store(time.AfterFunc(handshakeTime, func() {
		if c.unproved.Load() {
			_ = c.Conn.Close()
		}
	}))
}

// Close also stops the timer that would close it later, because a timer keeps a
// connection in memory.
func (c *conn) Close() error {
	if late := c.late.Load(); late != nil {
		late.Stop()
	}
	return c.Conn.Close()
}

// Proved records that the client at the other side of a connection has authenticated other than
// by a certificate. It may be called more than once.
func Proved(remote net.Addr) {
	if a, ok := unwrapped(remote).(addr); ok && a.conn.unproved.Load() {
		a.conn.unproved.Store(false)
	}
}

func (c *conn) Read(b []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(b, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	if !c.handshaking && !c.unproved.Load() {
		return c.Conn.Read(b)
	}
	if c.left == 0 {
		return 0, errTooMuch
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	c.heard = c.heard || n > 0
	return n, err
}

// RemoteAddr returns an address from which PrincipalAt can find the connection: servers pass the
// address to their handlers.
func (c *conn) RemoteAddr() net.Addr { return addr{c.Conn.RemoteAddr(), c} }

// NetConn returns the socket.
func (c *conn) NetConn() net.Conn { return c.Conn }

type addr struct {
	net.Addr
	conn *conn
}

// PrincipalAt returns the principal that the other side of a connection has authenticated as.
// remote is the remote address of the connection. The result is the zero value if the other side
// has not authenticated.
func PrincipalAt(remote net.Addr) identity.Principal {
	if a, ok := unwrapped(remote).(addr); ok {
		return a.conn.principal
	}
	return identity.Principal{}
}

// Encrypted reports whether the connection with a remote address is encrypted.
func Encrypted(remote net.Addr) bool {
	_, ok := unwrapped(remote).(addr)
	return ok
}

// unwrapped returns the address inside the wrappers of other packages.
func unwrapped(remote net.Addr) net.Addr {
	for {
		outer, ok := remote.(interface{ Unwrap() net.Addr })
		if !ok {
			return remote
		}
		remote = outer.Unwrap()
	}
}

// counted is an unencrypted connection that is counted for its address. It has all methods of a
// TCP connection, including those that the standard library needs to write many pieces at once.
type counted struct {
	*net.TCPConn
	once  sync.Once
	leave func()
	head  []byte // what was read before
	// logins slows down those of the address where they fail.
	logins *failing
}

// plainAddr is the remote address of a connection that is not encrypted.
type plainAddr struct {
	net.Addr
	conn *counted
}

// RemoteAddr returns an address in which BeginLogin finds the connection.
func (c *counted) RemoteAddr() net.Addr { return plainAddr{c.TCPConn.RemoteAddr(), c} }

func (c *counted) Read(b []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(b, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.TCPConn.Read(b)
}

func (c *counted) Close() error {
	c.once.Do(c.leave)
	return c.TCPConn.Close()
}

// Unread returns the socket and the bytes that were read from it and not returned.
func (c *counted) Unread() (net.Conn, []byte) { return c.TCPConn, c.head }

// NetConn returns the socket.
func (c *counted) NetConn() net.Conn { return c.TCPConn }
