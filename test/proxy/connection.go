package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// connection is a client's socket, one to the target, and a line each way.
type connection struct {
	proxy    *Proxy
	number   uint64
	client   *net.TCPConn
	up, down *line
	ctx      context.Context // ends with cut
	cancel   context.CancelFunc
	done     chan struct{} // closed when the connection has ended
}

func newConnection(p *Proxy, number uint64, client *net.TCPConn) *connection {
	ctx, cancel := context.WithCancel(context.Background())
	return &connection{
		proxy: p, number: number, client: client, up: newLine(), down: newLine(),
		ctx: ctx, cancel: cancel, done: make(chan struct{}),
	}
}

// cut ends the connection from outside.
func (c *connection) cut() { c.cancel() }

// run carries bytes until both directions have ended, one was reset, or cut.
func (c *connection) run() {
	defer c.cancel()
	target, err := c.dial()
	if err != nil {
		reset(c.client)
		return
	}
	hungUp := make(chan struct{})
	stop := context.AfterFunc(c.ctx, func() {
		defer close(hungUp)
		reset(c.client)
		reset(target)
		c.up.close()
		c.down.close()
	})
	defer func() {
		if !stop() {
			<-hungUp
			return
		}
		// Both directions have ended in order.
		_ = c.client.Close()
		_ = target.Close()
		c.up.close()
		c.down.close()
	}()

	var carrying sync.WaitGroup
	sees := func(d Direction) func([]byte) {
		return func(b []byte) { c.proxy.see(c.number, d, b) }
	}
	blind := func([]byte) {}
	carrying.Go(func() { c.up.fill(c.client, sees(Up)) })
	carrying.Go(func() { c.down.fill(target, blind) })
	carrying.Go(func() { c.pass(c.up.forward(target, blind), target, c.down) })
	carrying.Go(func() { c.pass(c.down.forward(c.client, sees(Down)), c.client, c.up) })
	carrying.Wait()
}

// pass hands on how a line ended: a half-close as such, anything else as a
// reset of both. back is the other line.
func (c *connection) pass(end error, to *net.TCPConn, back *line) {
	switch {
	case errors.Is(end, io.EOF):
		_ = to.CloseWrite()
		return
	case errors.Is(end, errGone):
		// The news travels back to the sender behind what was said before, as
		// late and as stalled as that.
		reset(to)
		<-back.forwarded
	}
	c.cancel()
}

func (c *connection) dial() (*net.TCPConn, error) {
	if err := c.proxy.awaitFlow(c.ctx); err != nil {
		return nil, err
	}
	// A cut may come when the target has the connection already and the dialler
	// has not: then, too, the target shall see a reset.
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
		})
	}}
	socket, err := d.DialContext(c.ctx, "tcp", c.proxy.target)
	if err != nil {
		return nil, err
	}
	target := socket.(*net.TCPConn)
	return target, target.SetLinger(-1)
}

// reset closes a socket so that the other side gets ECONNRESET, not the end of
// the stream.
func reset(socket *net.TCPConn) {
	_ = socket.SetLinger(0)
	_ = socket.Close()
}
