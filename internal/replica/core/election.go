package core

import (
	"slices"
)

// election is a replica's behavior without a leader, beyond that of Raft.
type election struct {
	group *group
	// firstLeader is set if this replica should be the first leader of the log.
	firstLeader         bool
	delay               int // election delay: ticks until this replica starts an election, see PeerGone; 0: none
	ticksWithoutLeader  int
	ticksSinceHeartbeat int
}

// distance slows down time for everything that waits for distant replicas: elections, heartbeats,
// queries to the leader. Leases and the disk have their own time.
type distance struct {
	stretch int // see SetStretch; at least 1
	ticks   int // since Raft's last
}

// SetStretch multiplies the times of elections and heartbeats. All replicas should have the same
// stretch. Until they do, a factor of up to 4 between two of them only delays the detection of a
// failed leader, or makes its followers wait longer.
func (d *distance) SetStretch(n int) { d.stretch = max(n, 1) }

// tick reports whether the tick counts for Raft.
func (d *distance) tick() bool {
	if d.ticks++; d.ticks < d.stretch {
		return false
	}
	d.ticks = 0
	return true
}

// startElection starts an election now instead of after an election timeout.
func (e *election) startElection() {
	e.group.protect(func() {
		if err := e.group.raft.Campaign(); err != nil {
			e.group.logger.Debug("could not start an election", "error", err)
		}
	})
}

// PeerGone records that a replica's process has certainly ended. If it led, the others need not
// wait for an election timeout.
func (e *election) PeerGone(replica uint64) {
	if e.group.Leads() || e.group.leader != replica || !e.group.isVoter(e.group.id) {
		return
	}
	e.group.protect(func() {
		if err := e.group.raft.ForgetLeader(); err != nil {
			e.group.logger.Debug("could not forget the leader", "error", err)
		}
	})
	// One starts an election at once, the others later if it does not succeed.
	for i, id := range e.heirs(replica) {
		if id == e.group.id {
			e.delay = 1 + 3*i
		}
	}
}

// heirs returns the remaining voters, in an order that all of them know.
func (e *election) heirs(gone uint64) (left []uint64) {
	for _, id := range e.group.storage.conf.GetVoters() {
		if id != gone {
			left = append(left, id)
		}
	}
	slices.Sort(left)
	return left
}

// tick starts an election when one is due. It reports whether there has been no leader, or no
// message from it, for so long that queries should be sent to other nodes. A learner never gives
// up its leader by itself.
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
