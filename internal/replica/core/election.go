package core

import (
	"slices"

	"strandline.dev/internal/record"
)

// What a replica does about having no leader, beyond what Raft does by itself.

// campaign asks for leadership now instead of after an election timeout.
func (c *Core) campaign() {
	c.protect(func() {
		if err := c.raft.Campaign(); err != nil {
			c.logger.Debug("could not campaign", "error", err)
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
	// One campaigns at once, the others a while later if it did not succeed.
	for i, id := range c.heirs(replica) {
		if id == c.id {
			c.hurry = 1 + 3*i
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

// hurried campaigns when the ticks are over that PeerGone set.
func (c *Core) hurried() {
	if c.hurry == 0 {
		return
	}
	if c.hurry--; c.hurry == 0 && c.leader == 0 {
		c.campaign()
	}
}

// lonely counts the ticks without a leader. Questions are refused when there
// has been none for so long that the caller had better ask elsewhere.
func (c *Core) lonely() {
	if c.leader != 0 {
		c.alone = 0
		return
	}
	if c.eager && c.alone%eagerTicks == 0 {
		c.campaign()
	}
	if c.alone++; c.alone%(4*electionTicks) == 0 {
		c.confirm.refuse(c.notLeader())
	}
}

// unanswered refuses the questions of a replica that has heard nothing from the
// leader for long. A learner never stops to believe in its leader by itself.
func (c *Core) unanswered() {
	if c.unheard++; !c.leading && c.unheard > 4*electionTicks && !c.confirm.empty() {
		c.confirm.refuse(record.Refuse(record.NotLeader, "nothing is heard from the leader of the log"))
	}
}
