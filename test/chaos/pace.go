package chaos

import (
	"sync"
	"time"

	"strandline.dev/test/cluster"
)

// pace measures the time without an acknowledgement, and until the first one
// after a fault.
type pace struct {
	cluster.Pace

	mu    sync.Mutex
	over  time.Time // the fault was
	first time.Time // acknowledgement since then; zero: none yet
}

// acked is Acked, and ends the wait that recover began.
func (p *pace) acked(now time.Time) {
	p.Acked(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first.IsZero() {
		p.first = now
	}
}

// recover begins to wait for the first acknowledgement.
func (p *pace) recover(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over, p.first = now, time.Time{}
}

// serving is how long the first one after recover took, if it has come.
func (p *pace) serving() (took time.Duration, came bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first.Sub(p.over), !p.first.IsZero()
}
