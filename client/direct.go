package client

import (
	"context"

	"google.golang.org/grpc"
)

// rest waits for something to send. Meanwhile a caller may take the sending
// goroutine's turn; it must have given it back when rest returns.
func (p *Producer) rest(round context.Context, stream grpc.ClientStream) {
	p.idle = stream
	p.sleep(round, nil)
	p.idle = nil
	for p.direct {
		p.sleep(context.Background(), nil)
	}
}

// largestDirect bounds what a caller sends itself, in bytes. It is less than
// what any flow-control window has left when nothing is in flight, so the
// caller does not wait for the network.
const largestDirect = 32 << 10

// goDirect reports whether a caller that is going to wait for r may send it
// itself, and takes the sending goroutine's turn then. That is the way of a
// caller alone on its connection: it saves waking a goroutine. Where several
// share one, they are gathered. The mutex is held.
func (p *Producer) goDirect(r *request) (stream grpc.ClientStream) {
	if p.idle == nil || !p.sleeping || len(p.window.flight) > 0 || len(p.queue) > 0 ||
		p.expected() > r.count || p.options.linger > 0 || r.size > largestDirect {
		return nil
	}
	p.seal(r)
	p.sleeping, p.direct = false, true
	return p.idle
}

// sendDirect sends a request in the sending goroutine's turn.
func (p *Producer) sendDirect(r *request, stream grpc.ClientStream) {
	i := p.put(r, stream)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.direct = false
	if i.err != nil {
		p.interruptLocked(i)
	}
	if p.idle == nil {
		p.rouse() // the round has ended: rest waits for the turn
		return
	}
	p.sleeping = true
	p.nudge()
}
