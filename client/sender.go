package client

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc"

	"strandline.dev/internal/transport/wire"
)

// sender sends requests on the stream, in order.
type sender struct {
	*job
	backlog *backlog
	turns   *turns
	round   *round
	message wire.AppendRequest // guarded by turns
}

// run sends requests on the stream until the round ends. The receiver gets the reason why a
// stream breaks, and that ends the round.
func (s *sender) run(round context.Context, stream grpc.ClientStream) interruption {
	s.message.Log = s.log
	for {
		r := s.take(round, stream)
		if r == nil {
			return interruption{}
		}
		if i := s.put(r, stream); i.err != nil {
			return i
		}
	}
}

// take returns the next request for this stream, which is in the window already. It waits for
// one, and returns nil when the round ends.
func (s *sender) take(round context.Context, stream grpc.ClientStream) *request {
	b := s.backlog
	s.mu.Lock()
	defer s.mu.Unlock()
	for round.Err() == nil {
		if r := b.window.unsent(); r != nil {
			return r
		}
		switch r := b.candidate(); {
		case r == nil || !b.window.admits(r.size):
			s.turns.rest(round, stream)
		case r == b.forming && s.lingers(r) > 0:
			timer := time.NewTimer(s.lingers(r))
			s.turns.sleep(round, timer.C)
			timer.Stop()
		case r == b.forming && b.expected() > r.count:
			b.gather(&s.mu)
		default:
			b.closeBatch(r)
		}
	}
	return nil
}

func (s *sender) lingers(r *request) time.Duration {
	if s.options.linger == 0 || r.urgent {
		return 0
	}
	return s.options.linger - time.Since(r.accepted)
}

// put sends one request of the window on the stream. Only one goroutine at a time does so: the
// sending one, or a caller that took its turn.
func (s *sender) put(r *request, stream grpc.ClientStream) interruption {
	if r.batch == nil {
		batch, err := r.builder.Finish(s.options.compression)
		if err != nil {
			return interruption{err: fromRecord(err), refused: r}
		}
		r.batch = batch
	}
	if !s.address(r) {
		return interruption{}
	}
	err := stream.SendMsg(&s.message)
	s.message.Log = ""
	if err != nil && err != io.EOF { // with EOF, the receiver gets the reason
		return interruption{err: s.client.failure(err)}
	}
	return interruption{}
}

// address counts the request as sent and fills in the message. It returns false if the request
// has failed meanwhile, together with an earlier one.
func (s *sender) address(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.backlog.window
	if w.unsent() != r {
		return false
	}
	w.sent++
	r.sends++
	if r.sends == 1 {
		r.sent = time.Now()
	} else {
		s.backlog.counts.resent++
	}
	s.message = wire.AppendRequest{
		Log: s.message.Log, SessionID: r.session, Epoch: r.epoch, FirstSequence: r.first,
		LowWater: w.lowWater(), WriterTerm: s.options.writer,
		ExpectedEnd: r.conditions.expectedEnd, HasExpectedEnd: r.conditions.hasExpectedEnd,
		Atomic: r.conditions.atomic, Batches: r.batch, Check: r.conditions.check, LogID: s.logID, Explain: s.options.stages,
	}
	return true
}

// nudge wakes the sending goroutine if it sleeps and could send. The mutex is held.
func (s *sender) nudge() {
	b := s.backlog
	if r := b.candidate(); s.turns.asleep() && r != nil && b.window.admits(r.size) {
		// A lingering request wakes it once; then it waits for the time itself.
		if r != b.forming || r.count == 1 || r.urgent || s.options.linger == 0 {
			s.turns.rouse()
		}
	}
}

// largestDirect is the maximum size of a request that a caller sends itself, in bytes. It is less
// than what any flow-control window has left when nothing is in flight, so the caller does not
// wait for the network.
const largestDirect = 32 << 10

// goDirect takes the turn for a caller that will wait for r, and returns the stream on which to
// send it, or nil if it may not. A single caller on a connection saves waking a goroutine this
// way. If several share one, their records are gathered instead. The mutex is held.
func (s *sender) goDirect(r *request) (stream grpc.ClientStream) {
	b := s.backlog
	if s.turns.now != resting || b.window.held || len(b.window.flight) > 0 || len(b.queue) > 0 ||
		b.expected() > r.count || s.options.linger > 0 || r.size > largestDirect {
		return nil
	}
	b.closeBatch(r)
	s.turns.now = lent
	return s.turns.stream
}

// sendDirect sends a request in the turn that goDirect took, and returns the turn.
func (s *sender) sendDirect(r *request, stream grpc.ClientStream) {
	i := s.put(r, stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.err != nil {
		s.round.interruptLocked(i)
	}
	if s.turns.now == recalled {
		s.turns.rouse()
		return
	}
	s.turns.now = resting
	s.nudge()
}
