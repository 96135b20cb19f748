package budget

import "sync"

// Owners count what principals hold of a part together, wherever they hold it.
type Owners struct {
	shares *Shares

	mu   sync.Mutex
	held map[uint32]int
}

// NewOwners makes a count of what is in a part.
func NewOwners(s *Shares) *Owners { return &Owners{shares: s, held: map[uint32]int{}} }

// Changed adds so many things to those of an owner, or takes them away.
func (o *Owners) Changed(owner uint32, by int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held[owner] += by; o.held[owner] == 0 {
		delete(o.held, owner)
	}
}

// Crowds reports whether an owner with one thing more, each of so many bytes, would have more than is left
// for all others.
func (o *Owners) Crowds(owner uint32, each int64) bool {
	o.mu.Lock()
	held := o.held[owner]
	o.mu.Unlock()
	return o.shares.Crowds(int64(held+1) * each)
}
