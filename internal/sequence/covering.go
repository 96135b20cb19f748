package sequence

import (
	"fmt"

	"strandline.dev/internal/record"
)

// covering extends the digest on a leader: the contents of committed batches, which are hashed
// elsewhere, are added to proposals that are made anyway.
//
//	table.digest.Covered                        hashedTo
//	      | in proposals     | waits for the next  | not hashed yet ...
//	       hashed[:attached]   hashed[attached:]
type covering struct {
	folded    *Table
	projected *logState // ahead of the table's
	leads     bool

	hashed   []record.HashedBatch // oldest first, from the table's Covered on
	bytes    uint64               // of the batches in hashed
	attached int                  // how many of hashed, from the front, are in proposals
	renew    bool                 // the next proposal with batches begins or restarts the digest
	renewing uint64               // number of the proposal in flight that does so; 0: none
}

const (
	// MaxUncovered bounds the bytes of batches by which the digest may trail the end: while there
	// are more, no append is proposed. One hasher is faster than any disk, so this requires a
	// processor without time for it.
	MaxUncovered = 64 << 20
	// MaxHashed bounds the contents that wait for a proposal.
	MaxHashed = 16 << 10
	// maxAttached bounds the contents in one proposal. A log with more batches has fewer bytes in
	// each.
	maxAttached = 8 << 10
)

// Hashed takes the contents of committed batches from HashedTo on. Contents from another offset
// are ignored: another replica has led meanwhile, or the digest has restarted.
//
// It returns an error, and takes none, if they are not the contents of batches of this log: no
// replica, including this one, could apply an entry that contains them.
func (c *covering) Hashed(from record.Offset, batches []record.HashedBatch) error {
	if !c.leads || from != c.HashedTo() || c.renew || c.renewing > 0 {
		return nil
	}
	next, bytes, end := from, c.bytes, c.folded.digest.End
	for i := range batches {
		h := &batches[i]
		bytes += uint64(h.Size)
		if h.Count == 0 || h.First < next || h.First >= end || h.End() > end || bytes > c.folded.digest.Uncovered {
			return fmt.Errorf("the content of a batch of %d records and %d bytes at offset %d does not follow the contents up to %d: the log ends at %d, and %d bytes of it are not covered",
				h.Count, h.Size, h.First, next, end, c.folded.digest.Uncovered)
		}
		next = h.End()
	}
	if next == end && bytes < c.folded.digest.Uncovered {
		return fmt.Errorf("the contents of batches up to the end at %d leave %d bytes out", end, c.folded.digest.Uncovered-bytes)
	}
	c.hashed, c.bytes = append(c.hashed, batches...), bytes
	return nil
}

// HashedTo returns the offset from which on batches must be hashed next.
func (c *covering) HashedTo() record.Offset {
	if n := len(c.hashed); n > 0 {
		return c.hashed[n-1].End()
	}
	return c.folded.digest.Covered
}

// Unhashed returns how many bytes of committed batches should be hashed now.
func (c *covering) Unhashed() uint64 {
	if !c.leads || c.renew || c.renewing > 0 || len(c.hashed) >= c.folded.limits.Hashed {
		return 0
	}
	return c.folded.digest.Uncovered - c.bytes
}

// Behind reports whether too many bytes are not covered for another append.
func (c *covering) Behind() bool { return c.projected.uncovered > c.folded.limits.Uncovered }

// RenewDigest makes the digest restart, because batches that it does not cover are lost.
func (c *covering) RenewDigest() {
	if c.leads && c.renewing == 0 {
		c.renew = true
	}
}

// Cover proposes contents without an append if something waits for them: appends or, if trimmed
// is set, the removal of trimmed segments. It reports whether it has.
func (s *pipeline) Cover(trimmed bool) bool {
	switch {
	case !s.leading || s.attached == len(s.hashed) && !s.renew:
		return false
	case !s.Behind() && !(trimmed && s.table.log.start > s.coveredTo()):
		return false
	}
	s.memory.reclaim()
	s.open = nil
	s.attach(s.begin(record.EntryBatches), 0)
	return true
}

// coveredTo returns the offset up to which the log is covered, including the contents in
// proposals.
func (c *covering) coveredTo() record.Offset {
	switch {
	case c.renewing > 0:
		return c.projected.end
	case c.attached > 0:
		return c.hashed[c.attached-1].End()
	}
	return c.folded.digest.Covered
}

// attach adds waiting contents to a new proposal that will hold the given bytes besides.
func (c *covering) attach(d *proposal, bytes int) {
	if c.renew {
		c.renew, c.renewing, d.begins = false, d.number, true
		c.projected.digested, c.projected.uncovered = true, 0
		for _, h := range c.hashed[c.attached:] {
			c.bytes -= uint64(h.Size)
		}
		c.hashed = c.hashed[:c.attached]
		return
	}
	room := max((record.MaxEntryBytes-entryHeaderBytes-bytes)/record.HashedSize, 0)
	for range min(len(c.hashed)-c.attached, c.folded.limits.Attached, room) {
		h := &c.hashed[c.attached]
		d.hashed = record.AppendHashed(d.hashed, h)
		c.projected.uncovered -= uint64(h.Size)
		c.attached++
	}
}

// detach takes contents back from the newest proposal.
func (c *covering) detach(d *proposal) {
	c.attached -= len(d.hashed) / record.HashedSize
	if d.begins {
		c.renewing, c.renew = 0, d.before.digested
	}
}

// taken removes the contents of the oldest proposal, which the table has now.
func (c *covering) taken(d *proposal) {
	n := len(d.hashed) / record.HashedSize
	for _, h := range c.hashed[:n] {
		c.bytes -= uint64(h.Size)
	}
	c.attached -= n
	if c.hashed = c.hashed[n:]; len(c.hashed) == 0 {
		c.hashed = nil
	}
	if d.begins {
		c.renewing = 0
	}
}

// check returns an error if an invariant does not hold. attached is the number of contents in
// proposals.
func (c *covering) check(attached int) error {
	bytes := uint64(0)
	for i := range c.hashed {
		bytes += uint64(c.hashed[i].Size)
	}
	switch {
	case c.attached != attached || attached > len(c.hashed):
		return fmt.Errorf("%d of %d contents are in proposals, which have %d", c.attached, len(c.hashed), attached)
	case c.bytes != bytes || c.leads && bytes > c.folded.digest.Uncovered:
		return fmt.Errorf("batches of %d bytes are hashed, %d were counted, the table lacks %d", bytes, c.bytes, c.folded.digest.Uncovered)
	case len(c.hashed) > 0 && (c.hashed[0].First < c.folded.digest.Covered || c.HashedTo() > c.folded.log.end):
		return fmt.Errorf("contents of batches of [%d, %d), the table is covered up to %d of %d", c.hashed[0].First, c.HashedTo(), c.folded.digest.Covered, c.folded.log.end)
	}
	return nil
}
