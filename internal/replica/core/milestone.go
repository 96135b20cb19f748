package core

// Milestone is a state of a core for which callers can wait.
type Milestone uint8

const (
	// LeaderReady means that this replica accepts appends, or has failed.
	LeaderReady Milestone = iota
	// Led means that this replica was elected, or follows an elected leader, or has failed.
	Led
	// HandoverEnded means that no handover is in progress, because this replica does not lead or no
	// other took over in time; Leads reports which.
	HandoverEnded
	// Replayed means that all entries known to be committed at the start have been applied, or that
	// the core has failed.
	Replayed
	// AllAnswered means that every waiting request has been answered. As soon as a caller waits for
	// it, new appends are refused.
	AllAnswered
	milestones
)

// waiters are callers that wait for milestones.
type waiters struct {
	lifecycle *lifecycle
	group     *group
	proposer  *proposer
	proposals *proposals
	handover  *handover
	opened    uint64 // commit index when this core was created
	waiting   [milestones][]func()
}

// When registers done to be called by Wake once a milestone has been reached.
func (w *waiters) When(m Milestone, done func()) {
	w.waiting[m] = append(w.waiting[m], done)
	if m == AllAnswered {
		w.lifecycle.phase = max(w.lifecycle.phase, closing)
	}
}

// Wake calls the callers whose milestone has been reached. It must be called after each Advance,
// once the status has been published.
func (w *waiters) Wake() {
	for _, m := range [...]Milestone{Replayed, LeaderReady, Led, HandoverEnded, AllAnswered} {
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
