package client

import (
	"context"
	"sync"
	"time"
)

// watch is the producer's clock: it ends rounds that take too long, leaves a leader
// that has fallen silent, and keeps the session.
type watch struct {
	*job
	backlog *backlog
	session *producerSession
	round   *round
}

// rounds watches the rounds.
func (w *watch) rounds() {
	beat := time.Second
	if w.options.timeout > 0 {
		beat = min(beat, w.options.timeout/4)
	}
	if !w.options.withoutSession {
		beat = min(beat, w.options.lease/12)
	}
	w.each(beat, func(now time.Time) {
		w.timeOut(now)
		w.suspect(now)
	})
}

// lease keeps the lease of a session that is idle. It does not run with rounds: a
// renewal waits for nodes that may not answer.
func (w *watch) lease() {
	w.each(min(time.Second, w.options.lease/12), func(now time.Time) {
		if err := w.session.keep(now); err != nil && err.endsSession() {
			w.round.interrupt(interruption{err: err})
		}
	})
}

// each does something at every beat, until the producer has ended.
func (w *watch) each(beat time.Duration, do func(now time.Time)) {
	ticker := time.NewTicker(max(beat, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-w.context.Done():
			return
		case now := <-ticker.C:
			do(now)
		}
	}
}

// timeOut ends the round if the oldest record has waited too long. Between rounds, while the
// log is asked for outcomes, it does nothing: what is too old then is settled before the next
// round, in which records that are accepted later must not fail for it.
func (w *watch) timeOut(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.round.underWay() && w.backlog.overdue(now) {
		w.round.interruptLocked(interruption{err: &Error{
			Reason: ErrTimedOut.Reason, Message: "no answer within " + w.options.timeout.String(), Retryable: true,
		}})
	}
}

// suspectAfter is how long requests may be without any answer before others are
// asked who leads. A leader that was paused, or cut off one way, keeps its
// connections; the transport would take 15 s to notice.
const suspectAfter = time.Second

// suspect ends the round if the node that has our requests is silent and
// another leads by now. Should the others be wrong, that node's successor says
// so, and what was sent again is recognised.
func (w *watch) suspect(now time.Time) {
	w.mu.Lock()
	silent := w.backlog.window.sent > 0 && now.Sub(w.session.lastSign) > suspectAfter && now.Sub(w.backlog.window.flight[0].sent) > suspectAfter
	w.mu.Unlock()
	if !silent {
		return
	}
	if leader := w.client.peers.anotherLeader(w.context, w.log); leader != "" {
		w.round.interrupt(interruption{err: &Error{
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
