package core

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
)

// whenDrained refuses new appends from now on and calls done once everything
// that waits has its answer.
func (c *Core) WhenDrained(done func()) {
	c.draining = append(c.draining, done)
}

// wake calls those who wait for a state that has been reached. The owner does
// so after each Advance, once it has shown its status to others.
func (c *Core) Wake() {
	c.wakeReplaying()
	c.wakeAwaiting()
	c.wakeLeaving()
	c.drained()
}

// drained calls those who wait for the core to be empty.
func (c *Core) drained() {
	if len(c.draining) == 0 || (c.failed == nil && (len(c.queue) > 0 || len(c.proposals) > 0)) {
		return
	}
	for _, done := range c.draining {
		done()
	}
	c.draining = nil
	c.closed = true
}

// stop ends the core for good.
func (c *Core) Stop() {
	c.stopping = true
	c.tail.Fail(record.Refuse(record.ShuttingDown, "the log is being closed on this node"))
	if c.failed == nil {
		gone := record.Refuse(record.ShuttingDown, "the log is being closed on this node")
		unknown := record.Refuse(record.OutcomeUnknown, "the log was closed before the append was committed; it may be in the log")
		c.failed = gone
		c.endLeadership(gone, unknown)
	}
}

// WhenNotLeading calls done once this replica does not lead, or the handover
// was given up.
func (c *Core) WhenNotLeading(done func()) { c.leaving = append(c.leaving, done) }

// whenReplayed calls done once all that was known to be committed at the start
// has been applied, or the core has failed.
func (c *Core) WhenReplayed(done func()) { c.replaying = append(c.replaying, done) }

func (c *Core) wakeReplaying() {
	if c.applied < c.opened && c.failed == nil {
		return
	}
	for _, done := range c.replaying {
		done()
	}
	c.replaying = nil
}

func (c *Core) wakeLeaving() {
	if c.leading && c.failed == nil && c.handover.to != 0 {
		return
	}
	for _, done := range c.leaving {
		done()
	}
	c.leaving = nil
}

// WhenLeaderReady calls done once this replica takes appends, or has failed.
func (c *Core) WhenLeaderReady(done func()) { c.awaiting = append(c.awaiting, done) }

func (c *Core) wakeAwaiting() {
	if !c.leaderReady && c.failed == nil {
		return
	}
	for _, done := range c.awaiting {
		done()
	}
	c.awaiting = nil
}

func (c *Core) Status() Status {
	return Status{
		Leader: c.leader, Term: c.term, Leading: c.leaderReady, WriterTerm: c.table.WriterTerm(),
		OpenSessions: c.table.OpenSessions(), Sealed: c.table.Sealed(), Fenced: c.table.Fenced(), Failed: c.failed,
		Known: c.confirm.known, SoleVoter: c.soleVoter() && c.applied >= c.opened, Short: c.short.yes, Members: c.members(),
	}
}

// Stopping reports whether the owner is to end after this round.
func (c *Core) Stopping() bool { return c.stopping }

// Tail is the readable range and what of it is in memory.
func (c *Core) Tail() *tail.Tail { return c.tail }

// Commit is the index of the newest entry known to be committed.
func (c *Core) Commit() uint64 { return c.commit }

// Durable is the index of the newest entry known to be durable here.
func (c *Core) Durable() uint64 { return c.durable }

// Applied is the index of the newest entry that was folded into the table.
func (c *Core) Applied() uint64 { return c.applied }

// Folded is the table that the entries up to an index add up to here, encoded.
func (c *Core) Folded() (index uint64, table []byte) { return c.applied, c.table.Snapshot(nil) }
