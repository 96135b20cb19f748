package core

import "strandline.dev/internal/record"

// Fail ends the replica (fail-stop): a write or a fold went wrong. Whatever waits is
// answered, and so is everything that comes later.
func (c *Core) Fail(reason *record.Refusal) {
	if c.failed != nil {
		return
	}
	c.failed = reason
	c.storage.tail.Fail(reason)
	unknown := reason
	if unknown.Reason.Outcome() != record.MaybeDone {
		unknown = record.Refuse(record.OutcomeUnknown, "this replica stopped before the append was committed; it may be in the log: %v", reason)
	}
	c.endLeadership(reason, unknown)
	c.leader = 0
}

// Failed tells why the replica ended, or nil.
func (c *Core) Failed() *record.Refusal { return c.failed }

// guard runs f, which calls Raft. Raft panics when its log cannot be read: a
// disk that fails ends this replica, and not the process with all the others.
// So does a message that contradicts what has committed here, which Raft will
// not go on with. No other panic is held up. Raft is not called again after a
// failure.
func (c *Core) guard(f func()) {
	if c.failed != nil {
		return
	}
	defer func() {
		if c.storage.broken != nil {
			_ = recover()
			c.out.Damaged = c.storage.broken
			c.Fail(record.Refuse(record.StorageFailed, "the log cannot be read: %v", c.storage.broken))
			return
		}
		switch reason := recover().(type) {
		case nil:
		case contradiction:
			c.Fail(record.Refuse(record.Corrupt, "the replicas of this log contradict each other: %s", reason))
		default:
			panic(reason)
		}
	}()
	f()
}
