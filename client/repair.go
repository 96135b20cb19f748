package client

import (
	"context"
	"time"
)

// repair decides about the requests that a round left without an answer:
//
//	producer or client closed     all fail
//	no session                    what was sent fails: sending again could append twice
//	another try may help          all stay and are sent again, in order
//	no answer for too long        all fail, what was sent with outcome MaybeDone
//	the session is gone, or
//	the log refused for good      what is in doubt is resolved, the rest fails; if
//	                              all that was sent is in the log, nothing does
//
// A failure ends the epoch, so that later records are not taken for those that failed.
func (s *supervisor) repair(i interruption, tried *peer) {
	if s.context.Err() != nil {
		i = interruption{err: closed("producer")}
	}
	s.endStream(i)
	if i.err.elsewhere() {
		s.client.peers.lookElsewhere(s.log, tried, i.err.Leader)
	}
	switch {
	case s.context.Err() != nil, i.err.Reason == ErrClosed.Reason,
		// Unless its answer arrived while the stream was being closed.
		i.err.Reason == ErrTimedOut.Reason && s.overdue(time.Now()):
		s.backlog.fail(i)
	case s.options.withoutSession:
		s.failSent(i.err)
		if !i.err.again() {
			s.backlog.fail(i)
		}
	case i.err.again():
	case i.err.endsSession():
		s.resolve(false)
		doubtful := s.backlog.doubtful()
		s.continueOrFail(i)
		if doubtful {
			s.backlog.stop(i.err)
		} else {
			s.backlog.session.forget()
		}
	default:
		s.resolve(true)
		s.continueOrFail(i)
	}
}

func (s *supervisor) overdue(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backlog.overdue(now)
}

// overdue reports whether the oldest request has waited too long for its answer.
func (b *backlog) overdue(now time.Time) bool {
	oldest := b.oldest()
	return oldest != nil && b.options.timeout > 0 && now.Sub(oldest.accepted) > b.options.timeout
}

// continueOrFail keeps what was accepted behind an interruption that leaves no sent request
// without a result: the refused one is in the log because of an earlier send, or the session
// ended. These records go to the next epoch, which a producer that ends on failures never begins.
// Otherwise they fail.
func (s *supervisor) continueOrFail(i interruption) {
	s.mu.Lock()
	continues := !s.options.endOnFailure && len(s.backlog.window.flight) == 0 && (i.refused != nil || i.err.endsSession())
	if continues {
		s.backlog.session.beginEpoch(i.err.Epoch)
	}
	s.mu.Unlock()
	if !continues {
		s.backlog.fail(i)
	}
}

// endStream records the sends on the stream that ended: they may be in the log, unless an answer
// says otherwise. The refusal does so for the refused request, and in an ended session nothing
// sent behind it can be in the log.
func (s *supervisor) endStream(i interruption) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.backlog.window.flight[:s.backlog.window.sent] {
		switch {
		case r == i.refused:
			r.outcome = r.outcome.Then(i.err.Outcome)
		case i.refused == nil || !i.err.endsSession():
			r.outcome = r.outcome.Then(MaybeDone)
		}
	}
	s.backlog.window.reset()
}

// resolve asks the log for the outcome of the requests in doubt. Those in the log are settled
// with their offsets. The first one that never will be in the log also clears those behind it,
// because a session has no gaps. With final, the log makes "not now" become "never". Requests not
// resolved in time stay in doubt.
func (s *supervisor) resolve(final bool) {
	ctx, cancel := s.resolving(time.Now())
	defer cancel()
	for {
		s.mu.Lock()
		if len(s.backlog.window.flight) == 0 || s.backlog.window.flight[0].outcome == NotDone {
			s.mu.Unlock()
			return
		}
		r := s.backlog.window.flight[0]
		at := SessionPosition{LogID: s.logID, Session: s.backlog.session.current.ID, Epoch: r.epoch, Next: r.first}
		s.mu.Unlock()

		resolution, err := s.resolveOne(ctx, at, final)
		if err != nil {
			return
		}
		s.mu.Lock()
		session := &s.backlog.session.current
		session.Epoch = max(session.Epoch, resolution.Epoch)
		if resolution.State == Never {
			for _, r := range s.backlog.window.flight {
				r.outcome = NotDone // the log's answer covers all sends
			}
		}
		s.mu.Unlock()
		if resolution.State != Committed {
			return
		}
		s.receiver.settle(r, resolution.Offset, nil)
	}
}

// resolveAtLeast is how long the log is queried even if the oldest request has hardly any time
// left: the answer takes a round trip, and without it the producer may have to end.
const resolveAtLeast = time.Second

// resolving bounds the query of the log by the time of the oldest request: the node may never
// answer.
func (s *supervisor) resolving(now time.Time) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.timeout == 0 || len(s.backlog.window.flight) == 0 {
		return context.WithCancel(s.context)
	}
	left := s.options.timeout - now.Sub(s.backlog.window.flight[0].accepted)
	return context.WithTimeout(s.context, max(left, resolveAtLeast))
}

// resolveOne queries until the answer is not "in flight".
func (s *supervisor) resolveOne(ctx context.Context, at SessionPosition, final bool) (Resolution, error) {
	pauses := newPauses()
	for {
		resolution, err := s.client.Admin().Resolve(ctx, s.log, at, final)
		if err != nil || resolution.State != Pending {
			return resolution, err
		}
		if err := pauses.wait(ctx, nil); err != nil {
			return Resolution{}, err
		}
	}
}

// failSent settles requests that were sent without a session and not answered.
func (s *supervisor) failSent(err *Error) {
	lost := *err
	lost.Outcome = MaybeDone
	for {
		s.mu.Lock()
		if len(s.backlog.window.flight) == 0 || s.backlog.window.flight[0].outcome == NotDone {
			s.mu.Unlock()
			return
		}
		r := s.backlog.window.flight[0]
		s.mu.Unlock()
		s.receiver.settle(r, 0, &lost)
	}
}
