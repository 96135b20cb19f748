package core

import "slices"

// election is what a replica does about having no leader, beyond what Raft does by
// itself.
type election struct {
	*group
	// firstLeader: nobody has led this log yet, and this replica is the one to begin.
	firstLeader         bool
	delay               int // election delay: ticks until this replica starts an election, see PeerGone; 0: it does not
	ticksWithoutLeader  int
	ticksSinceHeartbeat int
}

// startElection asks for leadership now instead of after an election timeout.
func (e *election) startElection() {
	e.protect(func() {
		if err := e.raft.Campaign(); err != nil {
			e.logger.Debug("could not start an election", "error", err)
		}
	})
}

// PeerGone records that a replica's process is gone for certain. If it led, the
// others need not wait until they miss it.
func (e *election) PeerGone(replica uint64) {
	if e.Leads() || e.leader != replica || !e.isVoter(e.id) {
		return
	}
	e.protect(func() {
		if err := e.raft.ForgetLeader(); err != nil {
			e.logger.Debug("could not forget the leader", "error", err)
		}
	})
	// One starts an election at once, the others a while later if it did not succeed.
	for i, id := range e.heirs(replica) {
		if id == e.id {
			e.delay = 1 + 3*i
		}
	}
}

// heirs are the voters that are left, in an order that all of them know.
func (e *election) heirs(gone uint64) (left []uint64) {
	for _, id := range e.storage.conf.GetVoters() {
		if id != gone {
			left = append(left, id)
		}
	}
	slices.Sort(left)
	return left
}

// tick starts an election when one is due. It reports whether there has been no
// leader, or nothing has been heard of it, for so long that questions are better
// asked elsewhere. A learner never stops to believe in its leader by itself.
func (e *election) tick() (leaderless, silent bool) {
	if e.delay > 0 {
		if e.delay--; e.delay == 0 && e.leader == 0 {
			e.startElection()
		}
	}
	if e.leader != 0 {
		e.ticksWithoutLeader = 0
	} else {
		if e.firstLeader && e.ticksWithoutLeader%firstLeaderTicks == 0 {
			e.startElection()
		}
		e.ticksWithoutLeader++
		leaderless = e.ticksWithoutLeader%(4*electionTicks) == 0
	}
	e.ticksSinceHeartbeat++
	return leaderless, !e.Leads() && e.ticksSinceHeartbeat > 4*electionTicks
}
