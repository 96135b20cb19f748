package secure

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/identity"
)

// errTooMuch ends a handshake.
var errTooMuch = errors.New("the client sent more than it may before it has proved who it is")

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
	// unproved: the client has shown no certificate, and no token or password yet.
	unproved atomic.Bool
	// late closes it while unproved. nil: the client has shown a certificate.
	late atomic.Pointer[time.Timer]
}

// await gives a client that has shown no certificate as much time and as many bytes as
// another one has for its handshake, until Proved is called.
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

// Proved says that the client at the other side of a connection has proved who it is, in
// another way than by a certificate. It may be called again.
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

// RemoteAddr returns an address in which PrincipalAt finds the connection: servers pass
// it to their handlers.
func (c *conn) RemoteAddr() net.Addr { return addr{c.Conn.RemoteAddr(), c} }

// NetConn returns the socket.
func (c *conn) NetConn() net.Conn { return c.Conn }

type addr struct {
	net.Addr
	conn *conn
}

// PrincipalAt returns the principal that the other side of a connection has proved to
// be, by the connection's remote address; the zero value if it has not.
func PrincipalAt(remote net.Addr) identity.Principal {
	if a, ok := unwrapped(remote).(addr); ok {
		return a.conn.principal
	}
	return identity.Principal{}
}

// Encrypted reports whether a connection is encrypted, by its remote address.
func Encrypted(remote net.Addr) bool {
	_, ok := unwrapped(remote).(addr)
	return ok
}

// unwrapped is the address that others may have added something to.
func unwrapped(remote net.Addr) net.Addr {
	for {
		outer, ok := remote.(interface{ Unwrap() net.Addr })
		if !ok {
			return remote
		}
		remote = outer.Unwrap()
	}
}

// counted is an unencrypted connection that counts for its address. It has all methods
// of a TCP connection, those too by which the standard library writes many pieces at
// once.
type counted struct {
	*net.TCPConn
	once  sync.Once
	leave func()
	head  []byte // what was read before
}

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

// Unread is the socket, and what of it has been read and not been given.
func (c *counted) Unread() (net.Conn, []byte) { return c.TCPConn, c.head }

// NetConn returns the socket.
func (c *counted) NetConn() net.Conn { return c.TCPConn }
