package client

import (
	"context"
	"time"
)

// interruption is why a stream ended or must end.
type interruption struct {
	err     *Error   // nil: nothing happened
	refused *request // whose answer it was; nil: no answer's
}

// interrupt ends the round, or the next one if there is none now. Of several
// reasons the first counts.
func (p *Producer) interrupt(i interruption) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interruptLocked(i)
}

func (p *Producer) interruptLocked(i interruption) {
	if p.interruption.err == nil {
		p.interruption = i
	}
	if p.cancelRound != nil {
		p.cancelRound()
	}
	if p.sleeping {
		p.rouse()
	}
}

func (p *Producer) beginRound(cancel context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancelRound = cancel
	if p.interruption.err != nil {
		cancel()
	}
}

// endRound returns why the round ended. Its receiver has returned.
func (p *Producer) endRound() interruption {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.interruption
	p.interruption, p.cancelRound = interruption{}, nil
	return i
}

// answered is how many requests have been appended.
func (p *Producer) answered() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts.requestRecords.Count
}

// repair decides what becomes of the requests that a round left without an
// answer:
//
//	the producer was closed       all fail
//	no session                    what was sent fails: sending again could append twice
//	another try may help          all stay and are sent again, in order
//	no answer for too long        all fail, what was sent with outcome MaybeInLog
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
	case p.context.Err() != nil || i.err.Reason == ErrTimedOut.Reason:
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

// endStream marks what was sent on the stream that ended as in doubt, unless
// an answer leaves none: the refused request itself is not in the log by this
// sending, and of a session that has ended nothing sent behind it can be.
func (p *Producer) endStream(i interruption) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i.refused == nil || !i.err.endsSession() {
		for _, r := range p.window.flight[:p.window.sent] {
			if r != i.refused || i.err.Outcome != NotInLog {
				r.maybe = true
			}
		}
	}
	p.window.reset()
}

// resolve asks the log what became of the requests in doubt. Those that are in
// it are settled with their offsets. The first that never will be clears those
// behind it too, because a session has no gaps. With final, the log sees to it
// that "not now" becomes "never".
func (p *Producer) resolve(final bool) {
	for {
		p.mu.Lock()
		if len(p.window.flight) == 0 || !p.window.flight[0].maybe {
			p.mu.Unlock()
			return
		}
		r, session := p.window.flight[0], p.session
		p.mu.Unlock()

		resolution, err := p.resolveOne(session.ID, r, final)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.session.Epoch = max(p.session.Epoch, resolution.Epoch)
		if resolution.State == Never {
			for _, r := range p.window.flight {
				r.maybe = false
			}
		}
		p.mu.Unlock()
		if resolution.State != Committed {
			return
		}
		p.settle(r, resolution.Offset, nil)
	}
}

// resolveOne asks until the answer is not "on its way".
func (p *Producer) resolveOne(session uint64, r *request, final bool) (Resolution, error) {
	pauses := newPauses()
	for {
		resolution, err := p.client.Admin().Resolve(p.context, p.log, session, r.epoch, r.first, final)
		if err != nil || resolution.State != Pending {
			return resolution, err
		}
		if err := pauses.wait(p.context, nil); err != nil {
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
		outcome := NotInLog
		if r.maybe {
			outcome = MaybeInLog
		}
		if r == i.refused || n == 0 && i.refused == nil {
			first := *i.err
			first.Outcome = outcome
			r.settle(0, &first)
		} else {
			r.settle(0, behind(i.err, outcome))
		}
	}
}

// failSent settles what was sent without a session and not answered.
func (p *Producer) failSent(err *Error) {
	lost := *err
	lost.Outcome = MaybeInLog
	for {
		p.mu.Lock()
		if len(p.window.flight) == 0 || !p.window.flight[0].maybe {
			p.mu.Unlock()
			return
		}
		r := p.window.flight[0]
		p.mu.Unlock()
		p.settle(r, 0, &lost)
	}
}

// stop lets the producer accept nothing more.
func (p *Producer) stop(err *Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		ended := *err
		ended.Outcome = NotInLog
		p.ended = &ended
	}
}

// forgetSession makes the next round open a new one.
func (p *Producer) forgetSession() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.next = Session{}, 0
}

// renewSession opens a session if there is none.
func (p *Producer) renewSession(ctx context.Context) error {
	p.mu.Lock()
	needed := p.session.ID == 0 && !p.options.withoutSession
	p.mu.Unlock()
	if !needed {
		return nil
	}
	session, err := p.client.Admin().OpenSession(ctx, p.log, p.options.lease)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.next, p.lastSign = session, 0, time.Now()
	return nil
}

// watch is the producer's clock: it ends rounds that take too long and renews
// the lease of a session that is idle.
func (p *Producer) watch() {
	beat := time.Second
	if p.options.timeout > 0 {
		beat = min(beat, p.options.timeout/4)
	}
	if !p.options.withoutSession {
		beat = min(beat, p.options.lease/12)
	}
	ticker := time.NewTicker(max(beat, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-p.context.Done():
			return
		case now := <-ticker.C:
			p.timeOut(now)
			p.keepSession(now)
		}
	}
}

// timeOut ends the round if the oldest record has waited too long.
func (p *Producer) timeOut(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := p.candidate()
	for _, r := range p.window.flight {
		if !r.failed {
			oldest = r
			break
		}
	}
	if p.options.timeout > 0 && oldest != nil && now.Sub(oldest.accepted) > p.options.timeout {
		p.interruptLocked(interruption{err: &Error{
			Reason: ErrTimedOut.Reason, Message: "no answer within " + p.options.timeout.String(), Retryable: true,
		}})
	}
}

// keepSession renews the lease if a third of it has passed without an answer.
func (p *Producer) keepSession(now time.Time) {
	p.mu.Lock()
	session, due := p.session, now.Sub(p.lastSign) > p.options.lease/3
	p.mu.Unlock()
	if session.ID == 0 || !due {
		return
	}
	ctx, cancel := context.WithTimeout(p.context, p.options.lease/3)
	defer cancel()
	err := p.client.Admin().KeepSession(ctx, p.log, session.ID)
	p.mu.Lock()
	current := p.session.ID == session.ID
	if err == nil && current {
		p.lastSign = now
	}
	p.mu.Unlock()
	if e := fromRPC(err); err != nil && current && e.endsSession() {
		p.interrupt(interruption{err: e})
	}
}
