package core

import (
	"slices"

	"strandline.dev/internal/record"
)

// What a replica does about having no leader, beyond what Raft does by itself.

// startElection asks for leadership now instead of after an election timeout.
func (c *Core) startElection() {
	c.protect(func() {
		if err := c.raft.Campaign(); err != nil {
			c.logger.Debug("could not start an election", "error", err)
		}
	})
}

// PeerGone tells that a replica's process is gone for certain. If it led, the
// others need not wait until they miss it.
func (c *Core) PeerGone(replica uint64) {
	if c.failed != nil || c.leading || c.leader != replica || !c.isVoter(c.id) {
		return
	}
	c.protect(func() {
		if err := c.raft.ForgetLeader(); err != nil {
			c.logger.Debug("could not forget the leader", "error", err)
		}
	})
	// One starts an election at once, the others a while later if it did not succeed.
	for i, id := range c.heirs(replica) {
		if id == c.id {
			c.electionDelay = 1 + 3*i
		}
	}
}

// heirs are the voters that are left, in an order that all of them know.
func (c *Core) heirs(gone uint64) (left []uint64) {
	for _, id := range c.storage.conf.GetVoters() {
		if id != gone {
			left = append(left, id)
		}
	}
	slices.Sort(left)
	return left
}

// delayedElection starts an election when the ticks are over that PeerGone set.
func (c *Core) delayedElection() {
	if c.electionDelay == 0 {
		return
	}
	if c.electionDelay--; c.electionDelay == 0 && c.leader == 0 {
		c.startElection()
	}
}

// leaderless counts the ticks without a leader. Questions are refused when there
// has been none for so long that the caller had better ask elsewhere.
func (c *Core) leaderless() {
	if c.leader != 0 {
		c.ticksWithoutLeader = 0
		return
	}
	if c.firstLeader && c.ticksWithoutLeader%firstLeaderTicks == 0 {
		c.startElection()
	}
	if c.ticksWithoutLeader++; c.ticksWithoutLeader%(4*electionTicks) == 0 {
		c.confirm.refuse(c.notLeader())
	}
}

// unansweredQuestions refuses the questions of a replica that has heard nothing from the
// leader for long. A learner never stops to believe in its leader by itself.
func (c *Core) unansweredQuestions() {
	if c.ticksSinceHeartbeat++; !c.leading && c.ticksSinceHeartbeat > 4*electionTicks && !c.confirm.empty() {
		c.confirm.refuse(record.Refuse(record.NotLeader, "nothing is heard from the leader of the log"))
	}
}
