package reading

import (
	"sync"

	"strandline.dev/internal/budget"
)

// charges are what a client holds of the node's memory.
type charges struct {
	mu   sync.Mutex
	held map[*charge]struct{}
}

// charge is one thing that a client holds.
type charge struct {
	of    *charges
	bytes int64
	reads *budget.Pool  // that it is counted in, unless
	stall *budget.Stall // is not nil
}

// add makes bytes that were taken of reads a charge.
func (s *charges) add(reads *budget.Pool, bytes int64) *charge {
	c := &charge{of: s, bytes: bytes, reads: reads}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[*charge]struct{}{}
	}
	s.held[c] = struct{}{}
	return c
}

// release ends the charge. It may be called again.
func (c *charge) release() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if _, held := c.of.held[c]; !held {
		return
	}
	delete(c.of.held, c)
	if c.stall != nil {
		c.stall.Leave()
	} else {
		c.reads.Release(c.bytes)
	}
}

// stall counts what is held as that of a client which takes nothing, where there is room for it.
func (s *charges) stall(in *budget.Stalled, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.held {
		if c.stall == nil && c.bytes > 0 {
			if c.stall = in.Enter(c.bytes, end); c.stall != nil {
				c.reads.Release(c.bytes)
			}
		}
	}
}

// releaseAll ends all charges.
func (s *charges) releaseAll() {
	s.mu.Lock()
	var held []*charge
	for c := range s.held {
		held = append(held, c)
	}
	s.mu.Unlock()
	for _, c := range held {
		c.release()
	}
}
