package replica

import "strandline.dev/internal/record"

// whenDrained refuses new appends from now on and calls done once everything
// that waits has its answer.
func (c *Core) whenDrained(done func()) {
	c.draining = append(c.draining, done)
}

// wake calls those who wait for a state that has been reached. The owner does
// so after each Advance, once it has shown its status to others.
func (c *Core) wake() {
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
func (c *Core) stop() {
	c.stopping = true
	c.tail.fail(record.Refuse(record.ShuttingDown, "the log is being closed on this node"))
	if c.failed == nil {
		gone := record.Refuse(record.ShuttingDown, "the log is being closed on this node")
		unknown := record.Refuse(record.OutcomeUnknown, "the log was closed before the append was committed; it may be in the log")
		c.failed = gone
		c.leaveOffice(gone, unknown)
	}
}

// whenOutOfOffice calls done once this replica does not lead, or the handover
// was given up.
func (c *Core) whenOutOfOffice(done func()) { c.leaving = append(c.leaving, done) }

// whenReplayed calls done once all that was known to be committed at the start
// has been applied, or the core has failed.
func (c *Core) whenReplayed(done func()) { c.replaying = append(c.replaying, done) }

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

// whenInOffice calls done once this replica takes appends, or has failed.
func (c *Core) whenInOffice(done func()) { c.awaiting = append(c.awaiting, done) }

func (c *Core) wakeAwaiting() {
	if !c.office && c.failed == nil {
		return
	}
	for _, done := range c.awaiting {
		done()
	}
	c.awaiting = nil
}

func (c *Core) status() Status {
	return Status{
		Leader: c.leader, Term: c.term, Leading: c.office, Writer: c.table.Writer(),
		OpenSessions: c.table.OpenSessions(), Sealed: c.table.Sealed(), Fenced: c.table.Fenced(), Failed: c.failed,
		Known: c.confirm.known, Alone: c.soleVoter() && c.applied >= c.opened, Short: c.short.yes, Members: c.members(),
	}
}
