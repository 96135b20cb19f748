package budget

import (
	"sync"
	"sync/atomic"
)

// Shares are bytes that holders cannot be refused. Each asks how much it may keep
// or take, as things are.
type Shares struct {
	size    int64
	used    atomic.Int64
	holders atomic.Int64 // that hold something
}

// NewShares makes a part of so many bytes.
func NewShares(size int64) *Shares { return &Shares{size: size} }

// Changed counts what a holder has, after and before.
func (s *Shares) Changed(before, after int64) {
	s.used.Add(after - before)
	switch {
	case before == 0 && after > 0:
		s.holders.Add(1)
	case before > 0 && after == 0:
		s.holders.Add(-1)
	}
}

// Share is how much a holder may have that would have most: all of that while there
// is room, and the same as all others where there is none.
func (s *Shares) Share(most int64) int64 {
	if s.used.Load() <= s.size-s.size/4 {
		return most
	}
	return min(most, s.size/max(1, s.holders.Load()))
}

// Tight reports whether there is so little room that nothing should be kept for use
// again.
func (s *Shares) Tight() bool { return s.used.Load() > s.size/2 }

// Full reports whether there is no room at all, for what can be refused after all.
func (s *Shares) Full() bool { return s.used.Load() >= s.size }

// Crowds reports whether a holder that would have so many bytes would have more than is left
// for all others, or nothing is left: what would make it larger is refused, and others still
// have room. One may fill half of the part, two a third each.
func (s *Shares) Crowds(own int64) bool {
	left := s.size - s.used.Load() // of which own may be a part already
	return left <= 0 || own > left
}

// Used is what all hold, Size what they should hold at most.
func (s *Shares) Used() int64 { return s.used.Load() }
func (s *Shares) Size() int64 { return s.size }

// Inflow is the data that connections have received and not processed yet. A connection that has
// more than its share may be in the middle of a request, which cannot be processed: then
// it receives the rest when it has a turn.
type Inflow struct {
	*Shares
	Turns *Arriving
}

// NewInflow makes a part of so many bytes: one half is shared, the other for turns.
func NewInflow(size int64) *Inflow { return &Inflow{NewShares(size / 2), NewArriving(size / 2)} }

// Size is that of both halves. Used counts what was received in turns as well.
func (i *Inflow) Size() int64 { return i.Shares.Size() + i.Turns.Size() }

// Principals counts the bytes of a part that each principal holds, wherever it holds them. A principal is
// known by the number that the ids of its sessions contain.
type Principals struct {
	shares *Shares

	mu   sync.Mutex
	held map[uint32]int64 // bytes
}

// NewPrincipals returns the counts for a part.
func NewPrincipals(s *Shares) *Principals { return &Principals{shares: s, held: map[uint32]int64{}} }

// Changed adds by, which may be negative, to the bytes of a principal.
func (o *Principals) Changed(principal uint32, by int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held[principal] += by; o.held[principal] == 0 {
		delete(o.held, principal)
	}
}

// Crowds reports whether a principal with more additional bytes would hold more than half of the bytes
// that are left for all others. A single principal may hold a third of the part, less than the half at
// which a log with all of it counts as having used up the part.
func (o *Principals) Crowds(principal uint32, more int64) bool {
	o.mu.Lock()
	held := o.held[principal]
	o.mu.Unlock()
	return o.shares.Crowds(2 * (held + more))
}
