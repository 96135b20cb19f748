package core

// Milestone is a state of a core that others wait for.
type Milestone uint8

const (
	// LeaderReady: this replica takes appends, or has failed.
	LeaderReady Milestone = iota
	// HandoverEnded: no handover is under way, since this replica does not lead or
	// nobody took over in time; Leads says which.
	HandoverEnded
	// Replayed: all that was known to be committed at the start has been applied, or
	// the core has failed.
	Replayed
	// Drained: everything that waits has its answer. From the moment that somebody
	// waits for it, new appends are refused.
	Drained
	milestones
)

// When calls done once a milestone has been reached, from Wake.
func (c *Core) When(m Milestone, done func()) { c.waiting[m] = append(c.waiting[m], done) }

// Wake calls those who wait for a state that has been reached. The owner does so
// after each Advance, once it has shown its status to others.
func (c *Core) Wake() {
	for _, m := range [...]Milestone{Replayed, LeaderReady, HandoverEnded, Drained} {
		if len(c.waiting[m]) == 0 || !c.reached(m) {
			continue
		}
		for _, done := range c.waiting[m] {
			done()
		}
		c.waiting[m] = nil
		c.closed = c.closed || m == Drained
	}
}

func (c *Core) reached(m Milestone) bool {
	switch {
	case c.failed != nil:
		return true
	case m == LeaderReady:
		return c.role == leaderReady
	case m == HandoverEnded:
		return !c.Leads() || c.handover.to == 0
	case m == Replayed:
		return c.storage.applied >= c.opened
	}
	return len(c.queue) == 0 && len(c.proposals.list) == 0
}
