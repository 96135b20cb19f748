package client

import (
	"context"

	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// supervisor runs the rounds of a producer, in the sending goroutine.
type supervisor struct {
	*job
	backlog  *backlog
	sender   *sender
	receiver *receiver
	round    *round
}

// run opens a stream when there is something to send, sends until the stream is interrupted,
// repairs what that left behind, and starts again. One iteration is a round.
func (s *supervisor) run() {
	var tried *peer
	var pauses *pauses // between rounds that append nothing; nil: the last one appended something
	for width := 1; ; {
		wait := s.awaitWork()
		if wait == hasEnded {
			break
		}
		if wait == hasWaited {
			pauses = nil
		}
		round, cancel := s.round.begin()
		if pauses == nil || pauses.between(round, tried, width) == nil {
			before := s.appended()
			tried = s.serve(round)
			switch {
			case s.appended() != before:
				pauses = nil
			case pauses == nil:
				pauses = newPauses()
			}
		}
		cancel()
		i := s.round.end()
		if width = 1; i.err != nil && i.err.elsewhere() {
			width = toLeader{s.client.peers, s.log}.width(i.err)
		}
		s.round.failed(i.err)
		s.repair(i, tried)
	}
	s.backlog.fail(interruption{err: closed("producer")})
}

// work is the result of awaitWork.
type work uint8

const (
	hasWork   work = iota // there was work immediately
	hasWaited             // there is work after a period without any
	hasEnded              // the producer has ended
)

// awaitWork waits until there is a reason for a round.
func (s *supervisor) awaitWork() work {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := hasWork
	for s.context.Err() == nil {
		if s.backlog.newest() != nil || s.round.interruption.err != nil {
			return found
		}
		found = hasWaited
		s.round.turns.sleep(s.context, nil)
	}
	return hasEnded
}

// appended returns how many requests have been appended.
func (s *supervisor) appended() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backlog.counts.requestRecords.Count
}

// serve sends on one stream until the round ends; the interruption says why it did. It returns
// the node that was tried.
func (s *supervisor) serve(round context.Context) *peer {
	peer, stream, err := s.openStream(round)
	if err != nil {
		s.round.interrupt(interruption{err: s.client.failure(err)})
		return peer
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		s.round.interrupt(s.receiver.run(stream))
	}()
	if i := s.sender.run(round, stream); i.err != nil {
		s.round.interrupt(i)
	}
	<-received
	return peer
}

func (s *supervisor) openStream(round context.Context) (*peer, grpc.ClientStream, error) {
	peer, err := s.client.peers.connect(round, s.log)
	if err != nil {
		return peer, nil, err
	}
	if err := s.backlog.session.reopen(round); err != nil {
		return peer, nil, err
	}
	stream, err := peer.stream(round, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		strandlinev1.LogService_Append_FullMethodName)
	if err != nil {
		return peer, nil, err
	}
	s.mu.Lock()
	s.backlog.counts.streams++
	s.round.node = peer.address
	s.mu.Unlock()
	return peer, stream, nil
}

// round is one iteration of the supervisor, from opening a stream to its end. It records why the
// stream has to end.
type round struct {
	*job
	turns        *turns
	interruption interruption
	cancel       context.CancelFunc // ends the stream; nil: no round is in progress
	node         string             // address of the node that has the newest stream
	// trouble is set if nothing has been appended since a round failed.
	trouble bool
}

// interruption is why a stream ended or must end.
type interruption struct {
	err     *Error   // nil: no interruption
	refused *request // the request whose answer it was; nil: none
}

// begin begins a round, which ends with its context.
func (r *round) begin() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.context)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel = cancel
	if r.interruption.err != nil {
		cancel()
	}
	return ctx, cancel
}

// end returns why the round ended. Its receiver has returned.
func (r *round) end() interruption {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.interruption
	r.interruption, r.cancel = interruption{}, nil
	return i
}

// underWay reports whether a round is in progress. The mutex is held.
func (r *round) underWay() bool { return r.cancel != nil }

// interrupt ends the round, or the next one if there is none now. Of several reasons the first
// one is kept.
func (r *round) interrupt(i interruption) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interruptLocked(i)
}

func (r *round) interruptLocked(i interruption) {
	if r.interruption.err == nil {
		r.interruption = i
	}
	if r.cancel != nil {
		r.cancel()
	}
	if r.turns.asleep() {
		r.turns.rouse()
	}
}

// failed reports a failed round that will be repeated to the trouble handler.
func (r *round) failed(err *Error) {
	if r.context.Err() != nil || err == nil || !err.again() {
		return
	}
	r.mu.Lock()
	r.trouble = true
	r.mu.Unlock()
	r.client.options.onTrouble(r.log, err)
}

// progressed reports that the trouble is over.
func (r *round) progressed() {
	r.mu.Lock()
	ended := r.trouble
	r.trouble = false
	r.mu.Unlock()
	if ended {
		r.client.options.onTrouble(r.log, nil)
	}
}
