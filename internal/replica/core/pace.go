package core

// Pace is how often a core needs ticks: a log that nobody uses costs next to
// nothing.
type Pace uint8

const (
	// EveryTick: something waits, or happened a short while ago.
	EveryTick Pace = iota
	// IdlePace: nothing has happened for a while, and nothing is due but heartbeats:
	// every IdleEvery-th tick does.
	IdlePace
	// NoTicks: ticks would change nothing. The log has one voter, leads itself, and
	// nothing waits nor may have to be forgotten.
	NoTicks
)

// Pace returns how often this core needs ticks now.
func (c *Core) Pace() Pace {
	switch conf := c.storage.conf; {
	case len(c.queue) > 0, len(c.proposals.list) > 0, !c.confirm.empty(), c.storage.table.OpenSessions() > 0, c.short.yes:
		return EveryTick
	case c.role == leaderReady && c.soleVoter() && len(conf.GetLearners()) == 0 && c.released && c.storage.table.EndedSessions() == 0:
		return NoTicks
	case c.quietTicks >= idleAfter && c.leader != 0 && len(conf.GetVotersOutgoing()) == 0:
		return IdlePace
	}
	return EveryTick
}

// woken notes that an entry has come.
func (c *Core) woken() { c.busy, c.released = c.now.Monotonic, false }

// release gives back the memory of a log, leader or follower, that has had no new
// entry for a while and has nothing under way: what it kept serves a busy log only.
func (c *Core) release() {
	if c.storage.tail.Tight() {
		c.storage.tail.Evict(min(c.storage.applied, c.storage.durable)+1, c.storage.tail.Limit())
		c.sequencer.Release()
	}
	if c.released || c.now.Monotonic-c.busy < idleMillis || len(c.queue) > 0 || len(c.proposals.list) > 0 ||
		min(c.storage.applied, c.storage.durable) < c.storage.last {
		return
	}
	c.released = true
	c.storage.tail.Evict(c.storage.applied+1, 0)
	c.queue, c.decided, c.proposals.list = nil, nil, nil
	c.sequencer.Release()
}
