package core

import (
	"errors"
	"fmt"

	"strandline.dev/internal/record"
)

var (
	// ErrForgot: the stored log ends before what this replica has acknowledged,
	// so what it voted for may be forgotten too. It has stopped, and must not
	// come back under its id.
	ErrForgot = errors.New("this replica has forgotten what it promised")
	// ErrShort: the oldest records of the log, which nobody has trimmed, are
	// not stored here.
	ErrShort = errors.New("the oldest records are not stored here")
	// ErrSpliced: a committed entry does not follow those in front of it, so
	// what is stored here is not one history. It has stopped. If its files are
	// whole, it must not come back under its id.
	ErrSpliced = errors.New("the entries stored here do not follow each other")
	// ErrEnded: the replica has ended for the damage that the error names. Else
	// it goes on.
	ErrEnded = errors.New("this replica has ended")
)

// shortage is what a core knows of records that should be stored and are not.
//
// Segments are given back only below a trim that has committed. But after a
// restart that trim may lie among the entries which are not known to be
// committed yet. Once everything that is committed anywhere has been applied,
// there is no such excuse.
type shortage struct {
	yes   bool // what is stored begins behind the start of the log as applied
	asked bool // the leader has been asked what is committed
	told  bool // Damaged has been told
}

// missing looks, with each tick, whether what is stored begins too late.
func (c *Core) missing() {
	switch {
	case !c.short.yes || c.short.told || c.failed != nil:
	case c.role == leaderReady:
		c.tellShort()
	case !c.short.asked && c.leader != 0:
		c.short.asked = true
		c.Confirm(func(r *record.Refusal) {
			c.short.asked = false
			if r == nil && c.short.yes && !c.short.told && c.failed == nil {
				c.tellShort()
			}
		})
	}
}

func (c *Core) tellShort() {
	c.short.told = true
	c.out.Damaged = fmt.Errorf("records %d to %d are gone with the oldest files of this log: %w",
		c.storage.table.Start(), c.storage.log.StartOffset()-1, ErrShort)
	if c.soleVoter() {
		c.Fail(record.Refuse(record.Corrupt, "%v; stop this node and bring the files back from a copy", c.out.Damaged))
	}
}

// Final is the index up to which the entries in Log are committed, and never
// change: those that have been applied, which are durable then. 0: the files are
// not those of the log yet.
func (c *Core) Final() uint64 {
	if c.storage.log.FirstIndex() <= c.installed {
		return 0 // the files are still those from before the snapshot
	}
	return c.storage.applied
}
