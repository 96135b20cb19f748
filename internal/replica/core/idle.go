package core

// A log that nobody uses costs next to nothing: its ticks come more slowly, or
// not at all.

// stir tells that something happens. A follower and its leader stir together:
// what one does reaches the other as a message that is no heartbeat.
func (c *Core) stir() { c.quietTicks = 0 }

// stirBy tells that a replica's node came or went. Followers mind their leader
// only: one that ticks fast while its leader does not would start an election.
func (c *Core) StirBy(replica uint64) {
	if c.leading || c.leader == replica {
		c.stir()
	}
}

// Idle reports that nothing has happened for a while, and nothing is due but
// heartbeats: ticks may come more slowly.
func (c *Core) Idle() bool {
	return c.quietTicks >= idleAfter && c.leader != 0 && len(c.queue) == 0 && len(c.proposals) == 0 && c.confirm.empty() &&
		c.table.OpenSessions() == 0 && len(c.storage.conf.GetVotersOutgoing()) == 0 && !c.short.yes
}

// Quiet reports that ticks would change nothing: the log has one voter, leads
// itself, and nothing waits.
func (c *Core) Quiet() bool {
	return c.leaderReady && c.soleVoter() && len(c.storage.conf.GetLearners()) == 0 && len(c.queue) == 0 && len(c.proposals) == 0 &&
		c.confirm.empty() && c.table.OpenSessions() == 0 && c.idle && !c.short.yes
}

// woken notes that an entry has come.
func (c *Core) woken() { c.busy, c.idle = c.now.Monotonic, false }

// release gives back the memory of a log, leader or follower, that has had no new
// entry for a while and has nothing under way: what it kept serves a busy log only.
func (c *Core) release() {
	if c.tail.Tight() {
		c.tail.Evict(min(c.applied, c.durable)+1, c.tail.Limit())
		c.sequencer.Release()
	}
	if c.idle || c.now.Monotonic-c.busy < idleMillis || len(c.queue) > 0 || len(c.proposals) > 0 ||
		min(c.applied, c.durable) < c.storage.last {
		return
	}
	c.idle = true
	c.tail.Evict(c.applied+1, 0)
	c.queue, c.decided, c.proposals = nil, nil, nil
	c.sequencer.Release()
}
