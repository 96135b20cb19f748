package cluster

import (
	"sync"
	"time"
)

// Pace measures the time without an acknowledgement.
type Pace struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

// Begin forgets what was up to now.
func (p *Pace) Begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.longest = now, 0
}

// Acked counts an acknowledgement.
func (p *Pace) Acked(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = max(p.longest, now.Sub(p.last))
	p.last = now
}

// Gap is the longest time without one since Begin; the one that lasts still
// counts.
func (p *Pace) Gap(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.longest, now.Sub(p.last))
}
