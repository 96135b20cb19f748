package budget

import "sync"

// Owners count what principals hold of a part together, wherever they hold it.
type Owners struct {
	shares *Shares

	mu   sync.Mutex
	held map[uint32]int64 // bytes
}

// NewOwners makes a count of what is in a part.
func NewOwners(s *Shares) *Owners { return &Owners{shares: s, held: map[uint32]int64{}} }

// Changed adds so many bytes to those of an owner, or takes them away.
func (o *Owners) Changed(owner uint32, by int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held[owner] += by; o.held[owner] == 0 {
		delete(o.held, owner)
	}
}

// Crowds reports whether an owner with so many bytes more would have more than half of what is left for all
// others. One has a third of the part, and not the half at which a log that holds it all has used up the part.
func (o *Owners) Crowds(owner uint32, more int64) bool {
	o.mu.Lock()
	held := o.held[owner]
	o.mu.Unlock()
	return o.shares.Crowds(2 * (held + more))
}
