package core

import "fmt"

// checkBounds returns an error that names a violated invariant of the indexes. It costs a few
// comparisons, and is called after every round:
//
//	applied <= commit <= last, applied <= durable <= last
//
// A snapshot that replaced the log counts as applied before it is durable.
func (c *Core) checkBounds() error {
	last := c.Group.storage.last
	switch {
	case c.Group.storage.applied > c.Group.storage.commit:
		return fmt.Errorf("entries up to %d are applied, up to %d are committed", c.Group.storage.applied, c.Group.storage.commit)
	case c.Group.storage.commit > last:
		return fmt.Errorf("entries up to %d are committed, the log ends at %d", c.Group.storage.commit, last)
	case c.Group.storage.durable > last:
		return fmt.Errorf("entries up to %d are durable, the log ends at %d", c.Group.storage.durable, last)
	case c.Group.storage.applied > max(c.Group.storage.durable, c.Applier.installed):
		return fmt.Errorf("entries up to %d are applied, up to %d are durable", c.Group.storage.applied, c.Group.storage.durable)
	case c.proposals.unplaced > len(c.proposals.list):
		return fmt.Errorf("%d of %d proposals have no index", c.proposals.unplaced, len(c.proposals.list))
	}
	return c.proposer.sequencer.CheckBounds()
}

// CheckInvariants returns an error that names a violated invariant of the indexes, the offsets or
// the sequencer. All of them hold between two rounds. It checks everything that is in memory.
func (c *Core) CheckInvariants() error {
	if c.Group.failed != nil {
		return nil // the state of a replica that has ended is no longer used
	}
	if err := c.checkBounds(); err != nil {
		return err
	}
	if first := c.Group.storage.log.FirstIndex(); first > c.Group.storage.applied+1 {
		return fmt.Errorf("the stored log begins at entry %d, but entries up to %d are applied", first, c.Group.storage.applied)
	}
	start, end, err := c.Group.storage.tail.Bounds()
	switch {
	case err != nil:
		return fmt.Errorf("a running replica cannot be read: %w", err)
	case start < c.Group.storage.table.Start():
		return fmt.Errorf("reads may begin at %d, but the log begins at %d", start, c.Group.storage.table.Start())
	case end < c.Group.storage.table.End():
		return fmt.Errorf("reads may extend to %d, entries up to offset %d are applied", end, c.Group.storage.table.End())
	}
	if e, ok := c.Group.storage.tail.At(c.Group.storage.applied); ok && e.End != c.Group.storage.table.End() {
		return fmt.Errorf("entry %d ends at offset %d, the table at %d", c.Group.storage.applied, e.End, c.Group.storage.table.End())
	}
	index := uint64(0)
	for i := range c.proposals.list {
		switch p := &c.proposals.list[i]; {
		case (p.index == 0) != (i >= len(c.proposals.list)-c.proposals.unplaced):
			return fmt.Errorf("proposal %d has index %d, the last %d of %d have none", p.number, p.index, c.proposals.unplaced, len(c.proposals.list))
		case p.index != 0 && p.index <= max(index, c.Group.storage.commit):
			return fmt.Errorf("proposal %d has index %d behind index %d, entries up to %d are committed", p.number, p.index, index, c.Group.storage.commit)
		default:
			index = p.index
		}
	}
	if err := c.Group.storage.tail.CheckInvariants(); err != nil {
		return err
	}
	return c.proposer.sequencer.CheckInvariants()
}
