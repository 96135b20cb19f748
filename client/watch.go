package client

import (
	"context"
	"sync"
	"time"
)

// watch is the producer's clock: it ends rounds that take too long, and leaves a
// leader that has fallen silent.
func (p *Producer) watch() {
	beat := time.Second
	if p.options.timeout > 0 {
		beat = min(beat, p.options.timeout/4)
	}
	if !p.options.withoutSession {
		beat = min(beat, p.options.lease/12)
	}
	p.each(beat, func(now time.Time) {
		p.timeOut(now)
		p.suspect(now)
	})
}

// renew keeps the lease of a session that is idle. It is no part of the clock: a
// renewal waits for nodes that may not answer.
func (p *Producer) renew() { p.each(min(time.Second, p.options.lease/12), p.keepSession) }

// each does something at every beat, until the producer has ended.
func (p *Producer) each(beat time.Duration, do func(now time.Time)) {
	ticker := time.NewTicker(max(beat, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-p.context.Done():
			return
		case now := <-ticker.C:
			do(now)
		}
	}
}

// timeOut ends the round if the oldest record has waited too long.
func (p *Producer) timeOut(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := p.candidate()
	for _, r := range p.window.flight {
		if r.state != failed {
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
	err := p.client.Admin().KeepSession(ctx, p.log, session)
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

// stop lets the producer accept nothing more.
func (p *Producer) stop(err *Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopLocked(err)
}

func (p *Producer) stopLocked(err *Error) {
	if p.ended == nil {
		ended := *err
		ended.Outcome = NotDone
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
	session, err := p.client.Admin().openSession(ctx, p.log, p.logID, p.options.lease)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.next, p.lastSign = session, 0, time.Now()
	return nil
}

// suspectAfter is how long requests may be without any answer before others are
// asked who leads. A leader that was paused, or cut off one way, keeps its
// connections; the transport would take 15 s to notice.
const suspectAfter = time.Second

// suspect ends the round if the node that has our requests is silent and
// another leads by now. Should the others be wrong, that node's successor says
// so, and what was sent again is recognised.
func (p *Producer) suspect(now time.Time) {
	p.mu.Lock()
	silent := p.window.sent > 0 && now.Sub(p.lastSign) > suspectAfter && now.Sub(p.window.flight[0].sent) > suspectAfter
	p.mu.Unlock()
	if !silent {
		return
	}
	if leader := p.client.peers.anotherLeader(p.context, p.log); leader != "" {
		p.interrupt(interruption{err: &Error{
			Reason: ErrNotLeader.Reason, Message: "the leader is silent, and " + leader + " leads now",
			Retryable: true, Outcome: MaybeDone, Leader: leader,
		}})
	}
}

// anotherLeader asks the dialled nodes who leads log, beside the one that is
// believed to, and returns the answer of the newest term if it is another.
func (p *peers) anotherLeader(ctx context.Context, log string) string {
	p.mu.Lock()
	believed := p.lead(log).address
	p.mu.Unlock()
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		leader string
		term   uint64
	)
	for _, address := range p.addresses {
		if address == believed {
			continue
		}
		asking.Go(func() {
			peer, err := p.connectTo(ctx, address)
			if err != nil {
				return
			}
			info, err := knownInfo(ctx, peer, log)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && info.GetLeader() != "" && info.GetLeaderTerm() >= term {
				leader, term = info.GetLeader(), info.GetLeaderTerm()
			}
		})
	}
	asking.Wait()
	if leader == believed {
		return ""
	}
	return leader
}
