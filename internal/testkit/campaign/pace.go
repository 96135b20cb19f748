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
}

// gap is the longest time without one since begin; the one that lasts still
// counts.
func (p *pace) gap(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.longest, now.Sub(p.last))
}

// newest is when the newest acknowledgement came.
func (p *pace) newest() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
