package core

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
)

// Stop ends the core for good.
func (c *Core) Stop() {
	c.stopping = true
	c.storage.tail.Fail(record.Refuse(record.ShuttingDown, "the log is being closed on this node"))
	if c.failed == nil {
		gone := record.Refuse(record.ShuttingDown, "the log is being closed on this node")
		unknown := record.Refuse(record.OutcomeUnknown, "the log was closed before the append was committed; it may be in the log")
		c.failed = gone
		c.endLeadership(gone, unknown)
	}
}

// Status is what the core knows now.
func (c *Core) Status() Status {
	return Status{
		Leader: c.leader, Term: c.term, Leading: c.role == leaderReady, WriterTerm: c.storage.table.WriterTerm(),
		OpenSessions: c.storage.table.OpenSessions(), Sealed: c.storage.table.Sealed(), Fenced: c.storage.table.Fenced(), Failed: c.failed,
		Known: c.confirm.known, SoleVoter: c.soleVoter() && c.storage.applied >= c.opened, Short: c.short.yes, Members: c.members(),
	}
}

// Stopping reports whether the owner is to end after this round.
func (c *Core) Stopping() bool { return c.stopping }

// Tail is the readable range and what of it is in memory.
func (c *Core) Tail() *tail.Tail { return c.storage.tail }

// Positions are the indexes of the newest entries that have been folded, that are
// known to be committed, and that are known to be durable here.
func (c *Core) Positions() (applied, commit, durable uint64) {
	return c.storage.applied, c.storage.commit, c.storage.durable
}

// Folded is the table that the entries up to an index add up to here, encoded.
func (c *Core) Folded() (index uint64, table []byte) {
	return c.storage.applied, c.storage.table.Snapshot(nil)
}
