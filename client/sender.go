package client

import (
	"context"
	"io"
	"runtime"
	"time"

	"google.golang.org/grpc"

	"strandline.dev/internal/transport/wire"
)

// send puts requests on the stream until the round ends. A stream that breaks
// tells its receiver why, and that ends the round.
func (p *Producer) send(round context.Context, stream grpc.ClientStream) interruption {
	p.message.Log = p.log
	for {
		r := p.take(round, stream)
		if r == nil {
			return interruption{}
		}
		if i := p.put(r, stream); i.err != nil {
			return i
		}
	}
}

// put puts one request of the window on the stream. Only one goroutine at a
// time does so: the sending one, or a caller that took its turn.
func (p *Producer) put(r *request, stream grpc.ClientStream) interruption {
	if r.batch == nil {
		batch, err := r.builder.Finish(p.options.compression)
		if err != nil {
			return interruption{err: fromRecord(err), refused: r}
		}
		r.batch = batch
	}
	if !p.address(r, &p.message) {
		return interruption{}
	}
	err := stream.SendMsg(&p.message)
	p.message.Log = ""
	if err != nil && err != io.EOF { // with EOF, the receiver hears the reason
		return interruption{err: p.client.failure(err)}
	}
	return interruption{}
}

// take returns the next request for this stream, in the window already. It
// waits for one, and returns nil when the round ends.
func (p *Producer) take(round context.Context, stream grpc.ClientStream) *request {
	p.mu.Lock()
	defer p.mu.Unlock()
	for round.Err() == nil {
		if r := p.window.unsent(); r != nil {
			return r
		}
		switch r := p.candidate(); {
		case r == nil || !p.window.admits(r.size):
			p.rest(round, stream)
		case r == p.forming && p.lingers(r) > 0:
			timer := time.NewTimer(p.lingers(r))
			p.sleep(round, timer.C)
			timer.Stop()
		case r == p.forming && p.expected() > r.count:
			p.gather()
		default:
			p.seal(r)
		}
	}
	return nil
}

// candidate is the oldest request that is not in the window, or nil.
func (p *Producer) candidate() *request {
	if len(p.queue) > 0 {
		return p.queue[0]
	}
	return p.forming
}

func (p *Producer) lingers(r *request) time.Duration {
	if p.options.linger == 0 || r.urgent {
		return 0
	}
	return p.options.linger - time.Since(r.accepted)
}

// How many times in a row gather yields without seeing a record come.
const (
	patienceMin = 4
	patienceMax = 256
)

// expected is how many records the forming request will have once every caller
// that an answer has woken is back: those come beside the ones that were
// waiting already. Otherwise callers that once fell into two halves would take
// turns for ever, each request with half of them. The mutex is held.
func (p *Producer) expected() int { return p.early + p.woken }

// gather lets the callers that the last answers woke append their next records
// first. Without it the first of 128 to come would be sent alone, and requests
// would alternate between 1 record and 127. It is more patient where most of
// them have come back before: a yield costs 0.1 us when nothing else runs. The
// mutex is held, and is released meanwhile.
func (p *Producer) gather() {
	expected, patience := int64(p.expected()), p.patience
	p.woken, p.early = 0, 0
	p.mu.Unlock()
	seen := p.formed.Load()
	for idle := 0; idle < patience && seen < expected; idle++ {
		runtime.Gosched()
		if now := p.formed.Load(); now != seen {
			seen, idle = now, 0
		}
	}
	p.mu.Lock()
	if seen > expected/2 {
		p.patience = min(2*patience, patienceMax)
	} else {
		p.patience = max(patience/2, patienceMin)
	}
}

// seal moves the candidate into the window and numbers its records.
func (p *Producer) seal(r *request) {
	if r == p.forming {
		p.forming = nil
		p.formed.Store(0)
		p.woken, p.early = 0, 0
	} else {
		p.queue[0] = nil
		p.queue = p.queue[1:]
	}
	r.state = inFlight
	if p.session.ID != 0 {
		r.session, r.epoch, r.first = p.session.ID, p.session.Epoch, p.next
		p.next += uint64(r.count)
	}
	p.window.push(r)
	p.sealedSize.Store(int64(r.size))
}

// address counts the request as sent and writes everything about it into the
// message. It is false if the request has failed meanwhile, with one in front
// of it.
func (p *Producer) address(r *request, m *wire.AppendRequest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.window.unsent() != r {
		return false
	}
	p.window.sent++
	r.sends++
	if r.sends == 1 {
		r.sent = time.Now()
	} else {
		p.counts.resent++
	}
	*m = wire.AppendRequest{
		Log: m.Log, SessionID: r.session, Epoch: r.epoch, FirstSequence: r.first,
		LowWater: p.window.lowWater(), WriterTerm: p.options.writer,
		ExpectedEnd: r.conditions.expectedEnd, HasExpectedEnd: r.conditions.hasExpectedEnd,
		Atomic: r.conditions.atomic, Batches: r.batch, LogID: p.logID,
	}
	return true
}

// sleep waits for a nudge, the end of ctx, or the timer. The mutex is held, and
// is released meanwhile.
func (p *Producer) sleep(ctx context.Context, timer <-chan time.Time) {
	p.turn = sleeping
	p.awaitWake(ctx, timer)
	p.turn = working
}

func (p *Producer) awaitWake(ctx context.Context, timer <-chan time.Time) {
	p.mu.Unlock()
	select {
	case <-p.wake:
	case <-ctx.Done():
	case <-timer:
	}
	p.mu.Lock()
}

// asleep reports whether the sending goroutine waits and could be woken. The mutex is
// held.
func (p *Producer) asleep() bool { return p.turn == sleeping || p.turn == resting }

// nudge wakes the sending goroutine if it sleeps and could send. The mutex is
// held.
func (p *Producer) nudge() {
	if r := p.candidate(); p.asleep() && r != nil && p.window.admits(r.size) {
		// A lingering request wakes it once; it keeps the time then.
		if r != p.forming || r.count == 1 || r.urgent || p.options.linger == 0 {
			p.rouse()
		}
	}
}

// rouse wakes the sending goroutine. The mutex is held.
func (p *Producer) rouse() {
	p.turn = working
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// turn is who may put requests on the stream.
//
//	working <-> sleeping
//	   ^  \
//	   |   +-> resting <-> lent
//	   |                    |  the round ends
//	   +--------------- recalled
type turn uint8

const (
	// working: the sending goroutine, which is awake.
	working turn = iota
	// sleeping: it too, and it waits for wake.
	sleeping
	// resting: it waits for wake, with a stream on which a caller may send.
	resting
	// lent: a caller is sending.
	lent
	// recalled: a caller is sending, and the sending goroutine waits for it to be done.
	recalled
)

// rest waits for something to send. Meanwhile a caller may take the turn; it has given
// it back when rest returns. The mutex is held, and is released meanwhile.
func (p *Producer) rest(round context.Context, stream grpc.ClientStream) {
	p.turn, p.stream = resting, stream
	p.awaitWake(round, nil)
	if p.turn == lent {
		p.turn = recalled
	}
	for p.turn == recalled {
		p.awaitWake(context.Background(), nil)
	}
	p.turn, p.stream = working, nil
}

// largestDirect bounds what a caller sends itself, in bytes. It is less than
// what any flow-control window has left when nothing is in flight, so the
// caller does not wait for the network.
const largestDirect = 32 << 10

// goDirect takes the turn for a caller that is going to wait for r, and returns the
// stream to send it on; nil if it may not. That is the way of a caller alone on its
// connection: it saves waking a goroutine. Where several share one, they are
// gathered. The mutex is held.
func (p *Producer) goDirect(r *request) (stream grpc.ClientStream) {
	if p.turn != resting || len(p.window.flight) > 0 || len(p.queue) > 0 ||
		p.expected() > r.count || p.options.linger > 0 || r.size > largestDirect {
		return nil
	}
	p.seal(r)
	p.turn = lent
	return p.stream
}

// sendDirect sends a request in the turn that goDirect took, and gives it back.
func (p *Producer) sendDirect(r *request, stream grpc.ClientStream) {
	i := p.put(r, stream)
	p.mu.Lock()
	defer p.mu.Unlock()
	if i.err != nil {
		p.interruptLocked(i)
	}
	if p.turn == recalled {
		p.rouse()
		return
	}
	p.turn = resting
	p.nudge()
}
