package client

import (
	"context"
	"time"
)

// repair decides what becomes of the requests that a round left without an
// answer:
//
//	producer or client closed     all fail
//	no session                    what was sent fails: sending again could append twice
//	another try may help          all stay and are sent again, in order
//	no answer for too long        all fail, what was sent with outcome MaybeDone
//	the session is gone, or
//	the log refused for good      what is in doubt is resolved, the rest fails
//
// Whatever fails ends the epoch, so that later records are not taken for those
// that failed.
func (p *Producer) repair(i interruption, tried *peer) {
	if p.context.Err() != nil {
		i = interruption{err: closed("producer")}
	}
	p.endStream(i)
	if i.err.elsewhere() {
		p.client.peers.lookElsewhere(p.log, tried, i.err.Leader)
	}
	switch {
	case p.context.Err() != nil, i.err.Reason == ErrTimedOut.Reason, i.err.Reason == ErrClosed.Reason:
		p.fail(i)
	case p.options.withoutSession:
		p.failSent(i.err)
		if !i.err.again() {
			p.fail(i)
		}
	case i.err.again():
	case i.err.endsSession():
		p.resolve(false)
		doubtful := p.doubtful()
		p.fail(i)
		if doubtful {
			p.stop(i.err)
		} else {
			p.forgetSession()
		}
	default:
		p.resolve(true)
		p.fail(i)
	}
}

// endStream takes note of the sendings on the stream that ended: they may be in
// the log, unless an answer says more. Of the request that was refused the refusal
// does, and in a session that has ended nothing sent behind it can be in the log.
func (p *Producer) endStream(i interruption) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.window.flight[:p.window.sent] {
		switch {
		case r == i.refused:
			r.outcome = r.outcome.Then(i.err.Outcome)
		case i.refused == nil || !i.err.endsSession():
			r.outcome = r.outcome.Then(MaybeDone)
		}
	}
	p.window.reset()
}

// resolve asks the log what became of the requests in doubt. Those that are in
// it are settled with their offsets. The first that never will be clears those
// behind it too, because a session has no gaps. With final, the log sees to it
// that "not now" becomes "never". What is not resolved in time stays in doubt.
func (p *Producer) resolve(final bool) {
	ctx, cancel := p.resolving(time.Now())
	defer cancel()
	for {
		p.mu.Lock()
		if len(p.window.flight) == 0 || p.window.flight[0].outcome == NotDone {
			p.mu.Unlock()
			return
		}
		r := p.window.flight[0]
		at := SessionPosition{LogID: p.logID, Session: p.session.ID, Epoch: r.epoch, Next: r.first}
		p.mu.Unlock()

		resolution, err := p.resolveOne(ctx, at, final)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.session.Epoch = max(p.session.Epoch, resolution.Epoch)
		if resolution.State == Never {
			for _, r := range p.window.flight {
				r.outcome = NotDone // the log says so of all sendings together
			}
		}
		p.mu.Unlock()
		if resolution.State != Committed {
			return
		}
		p.settle(r, resolution.Offset, nil)
	}
}

// resolveAtLeast is how long the log is asked even if the oldest request has
// hardly any time left: the answer is there in a round trip, and without it the
// producer may have to end.
const resolveAtLeast = time.Second

// resolving bounds how long the log is asked by the time of the oldest request:
// the node asked may never answer.
func (p *Producer) resolving(now time.Time) (context.Context, context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.timeout == 0 || len(p.window.flight) == 0 {
		return context.WithCancel(p.context)
	}
	left := p.options.timeout - now.Sub(p.window.flight[0].accepted)
	return context.WithTimeout(p.context, max(left, resolveAtLeast))
}

// resolveOne asks until the answer is not "on its way".
func (p *Producer) resolveOne(ctx context.Context, at SessionPosition, final bool) (Resolution, error) {
	pauses := newPauses()
	for {
		resolution, err := p.client.Admin().Resolve(ctx, p.log, at, final)
		if err != nil || resolution.State != Pending {
			return resolution, err
		}
		if err := pauses.wait(ctx, nil); err != nil {
			return Resolution{}, err
		}
	}
}

// fail settles everything without a result: the request that the interruption
// is about, or else the oldest, with its error, and the others as behind it.
// Requests that are on a stream which goes on stay in the window until their
// own refusals come.
func (p *Producer) fail(i interruption) {
	p.mu.Lock()
	failed := p.window.fail()
	failed = append(failed, p.queue...)
	if p.forming != nil {
		failed = append(failed, p.forming)
	}
	p.queue, p.forming = nil, nil
	if p.options.endOnFailure || i.err.Is(ErrLogReplaced) || i.err.Is(ErrClosed) {
		p.stopLocked(i.err)
	}
	p.formed.Store(0)
	if p.session.ID != 0 {
		p.session.Epoch, p.next = max(p.session.Epoch, i.err.Epoch)+1, 0
	}
	for _, r := range failed {
		p.release(r.size)
		p.counts.failed += uint64(r.count)
	}
	p.mu.Unlock()

	for n, r := range failed {
		if r == i.refused || n == 0 && i.refused == nil {
			first := *i.err
			first.Outcome = r.outcome
			r.settle(0, &first)
		} else {
			r.settle(0, behind(i.err, r.outcome))
		}
	}
}

// failSent settles what was sent without a session and not answered.
func (p *Producer) failSent(err *Error) {
	lost := *err
	lost.Outcome = MaybeDone
	for {
		p.mu.Lock()
		if len(p.window.flight) == 0 || p.window.flight[0].outcome == NotDone {
			p.mu.Unlock()
			return
		}
		r := p.window.flight[0]
		p.mu.Unlock()
		p.settle(r, 0, &lost)
	}
}
