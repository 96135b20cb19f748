package campaign

import (
	"sync"
	"time"
)

// pace measures the time without an acknowledgement.
type pace struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
	over    time.Time // the fault was
	first   time.Time // acknowledgement since then; zero: none yet
}

// begin forgets what was up to now.
func (p *pace) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.longest = now, 0
}

func (p *pace) acked(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = max(p.longest, now.Sub(p.last))
	p.last = now
	if p.first.IsZero() {
		p.first = now
	}
}

// gap is the longest time without one since begin; the one that lasts still
// counts.
func (p *pace) gap(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.longest, now.Sub(p.last))
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
