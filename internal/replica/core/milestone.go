package core

// Milestone is a state of a core that others wait for.
type Milestone uint8

const (
	// LeaderReady: this replica takes appends, or has failed.
	LeaderReady Milestone = iota
	// Led: this replica was elected, or follows one that was, or has failed.
	Led
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

// waiters wait for milestones.
type waiters struct {
	lifecycle *lifecycle
	group     *group
	proposer  *proposer
	proposals *proposals
	handover  *handover
	opened    uint64 // what was known to be committed when this core began
	waiting   [milestones][]func()
}

// When calls done once a milestone has been reached, from Wake.
func (w *waiters) When(m Milestone, done func()) {
	w.waiting[m] = append(w.waiting[m], done)
	if m == Drained {
		w.lifecycle.phase = max(w.lifecycle.phase, closing)
	}
}

// Wake calls those who wait for a state that has been reached. The owner does so
// after each Advance, once it has shown its status to others.
func (w *waiters) Wake() {
	for _, m := range [...]Milestone{Replayed, LeaderReady, Led, HandoverEnded, Drained} {
		if len(w.waiting[m]) == 0 || !w.reached(m) {
			continue
		}
		for _, done := range w.waiting[m] {
			done()
		}
		w.waiting[m] = nil
	}
}

func (w *waiters) reached(m Milestone) bool {
	switch {
	case w.group.failed != nil:
		return true
	case m == LeaderReady:
		return w.group.role == leaderReady
	case m == Led:
		return w.group.leader != 0
	case m == HandoverEnded:
		return !w.group.Leads() || w.handover.to == 0
	case m == Replayed:
		return w.group.storage.applied >= w.opened
	}
	return len(w.proposer.queue) == 0 && len(w.proposals.list) == 0
}
