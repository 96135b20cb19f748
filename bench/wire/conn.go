package wire

import "net"

// Watch counts what passes a connection where a client holds it. It is for what
// is encrypted, in which a proxy can see nothing: above the encryption the bytes
// are those of the protocol. A request counts from before it is written and until
// its answer has been read, so never later than on the wire and never shorter.
func (c *Counter) Watch(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched++
	return watchedConn{conn, ^c.watched, c}
}

// watchedConn has a number that counts down from the highest: a proxy's
// connections count up.
type watchedConn struct {
	net.Conn
	id      uint64
	counter *Counter
}

func (w watchedConn) Write(b []byte) (int, error) {
	w.counter.Up(w.id, b) // before, or the answer could be seen first
	return w.Conn.Write(b)
}

func (w watchedConn) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.counter.Down(w.id, b[:n])
	}
	return n, err
}
