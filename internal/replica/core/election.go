package core

import (
	"slices"
)

// election is what a replica does about having no leader, beyond what Raft does by
// itself.
type election struct {
	group *group
	// firstLeader: nobody has led this log yet, and this replica is the one to begin.
	firstLeader         bool
	delay               int // election delay: ticks until this replica starts an election, see PeerGone; 0: it does not
	ticksWithoutLeader  int
	ticksSinceHeartbeat int
}

// distance lets time pass more slowly for what waits for replicas that are far away:
// elections, heartbeats, questions to the leader. Leases and the disk have their own time.
type distance struct {
	stretch int // see SetStretch; at least 1
	ticks   int // since Raft's last
}

// SetStretch multiplies the times of elections and heartbeats. All replicas should have the same; until they do,
// up to a factor of 4 between two of them only makes a leader be missed later, or its followers wait
// longer.
func (d *distance) SetStretch(n int) { d.stretch = max(n, 1) }

// tick reports whether it is a tick for Raft.
func (d *distance) tick() bool {
	if d.ticks++; d.ticks < d.stretch {
		return false
	}
	d.ticks = 0
	return true
}

// startElection asks for leadership now instead of after an election timeout.
func (e *election) startElection() {
	e.group.protect(func() {
		if err := e.group.raft.Campaign(); err != nil {
			e.group.logger.Debug("could not start an election", "error", err)
		}
	})
}

// PeerGone records that a replica's process is gone for certain. If it led, the
// others need not wait until they miss it.
func (e *election) PeerGone(replica uint64) {
	if e.group.Leads() || e.group.leader != replica || !e.group.isVoter(e.group.id) {
		return
	}
	e.group.protect(func() {
		if err := e.group.raft.ForgetLeader(); err != nil {
			e.group.logger.Debug("could not forget the leader", "error", err)
		}
	})
	// One starts an election at once, the others a while later if it did not succeed.
	for i, id := range e.heirs(replica) {
		if id == e.group.id {
			e.delay = 1 + 3*i
		}
	}
}

// heirs are the voters that are left, in an order that all of them know.
func (e *election) heirs(gone uint64) (left []uint64) {
	for _, id := range e.group.storage.conf.GetVoters() {
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
		if e.delay--; e.delay == 0 && e.group.leader == 0 {
			e.startElection()
		}
	}
	if e.group.leader != 0 {
		e.ticksWithoutLeader = 0
	} else {
		if e.firstLeader && e.ticksWithoutLeader%firstLeaderTicks == 0 {
			e.startElection()
		}
		e.ticksWithoutLeader++
		leaderless = e.ticksWithoutLeader%(4*electionTicks) == 0
	}
	e.ticksSinceHeartbeat++
	return leaderless, !e.group.Leads() && e.ticksSinceHeartbeat > 4*electionTicks
}
