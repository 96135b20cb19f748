package client

import (
	"context"
	"sync"
	"time"
)

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
