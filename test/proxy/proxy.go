package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Direction says which way bytes go. Up and Down can be joined with |.
type Direction uint8

const (
	// Up is from who connected to the target.
	Up Direction = 1 << iota
	// Down is from the target to who connected.
	Down
	Both = Up | Down
)

func (d Direction) String() string {
	switch d {
	case Up:
		return "up"
	case Down:
		return "down"
	case Both:
		return "both"
	default:
		return fmt.Sprintf("Direction(%d)", uint8(d))
	}
}

// Proxy forwards every connection to its target. All methods are safe for
// concurrent use and act at once, on the connections that are open and on
// those to come.
type Proxy struct {
	listener net.Listener
	target   string
	watch    atomic.Pointer[func(uint64, Direction, []byte)]
	running  sync.WaitGroup // accept, and all connections

	mu       sync.Mutex
	open     map[uint64]*connection
	last     uint64 // number of the newest connection
	delay    time.Duration
	stalled  Direction
	flows    chan struct{} // closed while stalled is 0
	refusing bool
	closed   bool
}

// Listen starts a proxy at address (port 0: any free one) for target. The
// target is dialled again for each connection, so it may come, go and come back.
func Listen(address, target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("proxy to %s: %w", target, err)
	}
	p := &Proxy{listener: listener, target: target, open: map[uint64]*connection{}, flows: make(chan struct{})}
	close(p.flows)
	p.running.Go(p.accept)
	return p, nil
}

// Address is where the proxy listens, as host:port.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// SetDelay makes every byte that comes in from now on leave d later, in each
// direction: a round trip takes 2 d longer. It takes no bandwidth away; see
// maxHeld in line.go for how much a line holds. Making a connection is not
// delayed, only what is sent on it and its end are.
func (p *Proxy) SetDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
	for _, c := range p.open {
		c.up.setDelay(d)
		c.down.setDelay(d)
	}
}

// Stall holds the bytes that go in direction d, and the ends of connections
// with them, until Resume: to the two sides it is as if packets were lost one
// way. What is being written at this moment may still go out. A connection
// that comes meanwhile is made, but reaches the target after Resume: packets
// of both directions would be needed to open it.
func (p *Proxy) Stall(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled == 0 && d != 0 {
		p.flows = make(chan struct{})
	}
	p.stalled |= d
	p.applyStall()
}

// Resume lets the bytes of both directions flow again; none was lost.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != 0 {
		close(p.flows)
	}
	p.stalled = 0
	p.applyStall()
}

// applyStall needs mu.
func (p *Proxy) applyStall() {
	for _, c := range p.open {
		c.up.setStalled(p.stalled&Up != 0)
		c.down.setStalled(p.stalled&Down != 0)
	}
}

// Cut resets every open connection on both sides, stalled or not, and forgets
// the bytes on the way. It returns when that is done.
func (p *Proxy) Cut() {
	p.mu.Lock()
	cut := make([]*connection, 0, len(p.open))
	for _, c := range p.open {
		cut = append(cut, c)
	}
	p.mu.Unlock()
	for _, c := range cut {
		c.cut()
		<-c.done
	}
}

// Refuse makes the proxy reset new connections as soon as they are made, until
// it is called with false. Who connects learns it from connecting or from what
// comes next. A connection to a target that is not there ends the same way.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refuse
}

// Watch calls see with all bytes as they pass the side of who connected: those
// going up as they come in, those going down before they go out. So a count of
// what is without an answer, kept by see, is never higher than the client's
// own, whatever the delay. conn numbers the connections from 1; calls for one
// connection and direction come one after the other, others at the same time.
// see must not keep or change b. nil ends it.
func (p *Proxy) Watch(see func(conn uint64, d Direction, b []byte)) {
	if see == nil {
		p.watch.Store(nil)
		return
	}
	p.watch.Store(&see)
}

// Close ends the proxy and resets its connections.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Cut()
	p.running.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		socket, err := p.listener.Accept()
		switch {
		case err == nil:
			p.admit(socket.(*net.TCPConn))
		case errors.Is(err, net.ErrClosed):
			return
		default:
			// Descriptors have run out, most likely; there may be some soon.
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// admit makes a connection of socket, or resets it.
func (p *Proxy) admit(socket *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing || p.closed {
		reset(socket)
		return
	}
	p.last++
	c := newConnection(p, p.last, socket)
	c.up.delay, c.down.delay = p.delay, p.delay
	c.up.stalled, c.down.stalled = p.stalled&Up != 0, p.stalled&Down != 0
	p.open[c.number] = c
	p.running.Go(func() {
		c.run()
		p.mu.Lock()
		delete(p.open, c.number)
		p.mu.Unlock()
		close(c.done)
	})
}

// awaitFlow waits until no direction is stalled.
func (p *Proxy) awaitFlow(ctx context.Context) error {
	for {
		p.mu.Lock()
		flows, stalled := p.flows, p.stalled != 0
		p.mu.Unlock()
		if !stalled {
			return nil
		}
		select {
		case <-flows:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Proxy) see(conn uint64, d Direction, b []byte) {
	if see := p.watch.Load(); see != nil {
		(*see)(conn, d, b)
	}
}
