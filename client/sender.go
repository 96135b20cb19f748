package client

import (
	"context"
	"io"
	"runtime"
	"time"

	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/transport/wire"
)

// supervise is the producer's sending goroutine. It opens a stream when there
// is something to send, sends until the stream is interrupted, repairs what
// that left behind, and begins again. One turn of it is a round.
func (p *Producer) supervise() {
	var tried *peer
	pauses, pause, width := newPauses(), false, 1
	for {
		there, waited := p.awaitWork()
		if !there {
			break
		}
		if waited {
			pauses, pause = newPauses(), false
		}
		round, cancel := context.WithCancel(p.context)
		p.beginRound(cancel)
		if !pause || pauses.between(round, tried, width) == nil {
			before := p.answered()
			tried = p.serve(round)
			if pause = p.answered() == before; !pause {
				pauses = newPauses()
			}
		}
		cancel()
		i := p.endRound()
		if width = 1; i.err != nil && i.err.elsewhere() {
			width = toLeader{p.client.peers, p.log}.width(i.err)
		}
		p.noteTrouble(i.err)
		p.repair(i, tried)
	}
	p.fail(interruption{err: closed("producer")})
}

// awaitWork waits until there is a reason for a round; none is there when the
// producer has ended.
func (p *Producer) awaitWork() (there, waited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.context.Err() == nil {
		if p.forming != nil || len(p.queue) > 0 || len(p.window.flight) > 0 || p.interruption.err != nil {
			return true, waited
		}
		waited = true
		p.sleep(p.context, nil)
	}
	return false, waited
}

// noteTrouble tells that a round failed which will be repeated.
func (p *Producer) noteTrouble(err *Error) {
	if p.context.Err() != nil || err == nil || !err.again() {
		return
	}
	p.mu.Lock()
	p.troubled = true
	p.mu.Unlock()
	p.client.options.onTrouble(p.log, err)
}

// noteProgress tells that trouble is over.
func (p *Producer) noteProgress() {
	p.mu.Lock()
	over := p.troubled
	p.troubled = false
	p.mu.Unlock()
	if over {
		p.client.options.onTrouble(p.log, nil)
	}
}

// answered is how many requests have been appended.
func (p *Producer) answered() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts.requestRecords.Count
}

// serve sends on one stream until the round ends; the interruption tells why it
// did. It returns the node that it tried.
func (p *Producer) serve(round context.Context) *peer {
	peer, stream, err := p.openStream(round)
	if err != nil {
		p.interrupt(interruption{err: p.client.failure(err)})
		return peer
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		p.interrupt(p.receive(stream))
	}()
	if i := p.send(round, stream); i.err != nil {
		p.interrupt(i)
	}
	<-received
	return peer
}

func (p *Producer) openStream(round context.Context) (*peer, grpc.ClientStream, error) {
	peer, err := p.client.peers.connect(round, p.log)
	if err != nil {
		return peer, nil, err
	}
	if err := p.renewSession(round); err != nil {
		return peer, nil, err
	}
	stream, err := peer.conn.NewStream(round, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		strandlinev1.LogService_Append_FullMethodName)
	if err != nil {
		return peer, nil, err
	}
	p.mu.Lock()
	p.counts.streams++
	p.mu.Unlock()
	return peer, stream, nil
}

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
	r.sealed = true
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
	p.sleeping = true
	p.mu.Unlock()
	select {
	case <-p.wake:
	case <-ctx.Done():
	case <-timer:
	}
	p.mu.Lock()
	p.sleeping = false
}

// nudge wakes the sending goroutine if it sleeps and could send. The mutex is
// held.
func (p *Producer) nudge() {
	if r := p.candidate(); p.sleeping && r != nil && p.window.admits(r.size) {
		// A lingering request wakes it once; it keeps the time then.
		if r != p.forming || r.count == 1 || r.urgent || p.options.linger == 0 {
			p.rouse()
		}
	}
}

func (p *Producer) rouse() {
	p.sleeping = false
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
