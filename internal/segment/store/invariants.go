package store

import (
	"fmt"
	"slices"

	"strandline.dev/internal/segment/format"
)

// CheckInvariants returns an error that names an invariant of the log that does not hold. It
// checks everything that is in memory. It must not be called concurrently with other methods, but
// may be called while the caller itself waits for the disk on behalf of the log.
func (s *Store) CheckInvariants() error {
	if s.failed() != nil {
		return nil // a stopped log is not used
	}
	for _, check := range []func() error{s.checkChain, s.checkOffsets, s.checkUsers, s.checkFront, s.writer.checkEnd, s.checkSnapshots} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// bug returns the error for an invariant that does not hold, or nil if err is nil. The log stops
// with it, since continuing could damage it.
func bug(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("an invariant of the log does not hold, which is a bug: %w", err)
}

// checkChain checks that the live segments follow each other without a gap of entries:
//
//	segments  ordinals without a gap, the active one last
//	live      segments with valid entries; each ends where the next begins
func (l *list) checkChain() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for k := 1; k < len(l.segments); k++ {
		if a, b := l.segments[k-1], l.segments[k]; a.Ordinal+1 != b.Ordinal {
			return fmt.Errorf("segment %d is followed by segment %d", a.Ordinal, b.Ordinal)
		}
	}
	at := 0
	for k, seg := range l.live {
		from := slices.Index(l.segments[at:], seg)
		if from < 0 {
			return fmt.Errorf("live segment %d is not behind the previous live segment in the log", seg.Ordinal)
		}
		if k > 0 && (l.live[k-1].end != seg.First || l.live[k-1].First >= seg.First) {
			return fmt.Errorf("segment %d has entries [%d, %d), but the next begins at %d", l.live[k-1].Ordinal, l.live[k-1].First, l.live[k-1].end, seg.First)
		}
		if seg.gone {
			return fmt.Errorf("live segment %d has left the log", seg.Ordinal)
		}
		at += from + 1
	}
	return nil
}

// checkOffsets checks that offsets, terms, times and bytes do not decrease from one live segment
// to the next, as far as headers and indexes are in memory.
func (l *list) checkOffsets() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for k, seg := range l.live {
		if x := seg.index; x != nil && x.Next < seg.end {
			return fmt.Errorf("segment %d has entries up to %d, its index up to %d", seg.Ordinal, seg.end-1, x.Next-1)
		}
		if k == 0 || seg.header == nil {
			continue
		}
		before, h := l.live[k-1], seg.header
		if x := before.index; x != nil && x.Next == before.end && h.Start < x.NextOffset {
			return fmt.Errorf("segment %d begins at offset %d, the one before ends at %d", seg.Ordinal, h.Start, x.NextOffset)
		}
		if b := before.header; b != nil && (h.Start < b.Start || h.TermBefore < b.TermBefore || h.Time < b.Time) {
			return fmt.Errorf("segment %d begins at offset %d, term %d, time %d, behind one that begins at offset %d, term %d, time %d",
				seg.Ordinal, h.Start, h.TermBefore, h.Time, b.Start, b.TermBefore, b.Time)
		}
	}
	return nil
}

// checkUsers checks that a segment with users has an open file and an index in memory, and that
// no other segment has.
func (l *list) checkUsers() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, seg := range l.segments {
		switch {
		case seg.users < 0 || seg.users > 0 != (seg.file != nil):
			return fmt.Errorf("segment %d has %d users, but its file is open: %t", seg.Ordinal, seg.users, seg.file != nil)
		case seg.users == 0 && seg.footer && seg.index != nil:
			return fmt.Errorf("segment %d has no users, but an index in memory", seg.Ordinal)
		}
	}
	return nil
}

// checkFront checks that the log begins at the segment that the begin mark names. It costs a few
// comparisons, and is called after each trim.
func (t *trimmer) checkFront() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.Begin.mu.TryLock() {
		return nil // it is being moved
	}
	defer t.Begin.mu.Unlock()
	first, last := t.segments[0], t.segments[len(t.segments)-1]
	switch mark := t.Begin; {
	case mark.path != "" && (mark.ordinal < first.Ordinal || mark.ordinal > last.Ordinal):
		return fmt.Errorf("the begin mark names segment %d, but the log has segments %d to %d", mark.ordinal, first.Ordinal, last.Ordinal)
	case t.live[0].header == nil:
		return fmt.Errorf("the header of segment %d, with which the log begins, is not in memory", t.live[0].Ordinal)
	}
	return nil
}

// checkEnd checks the end of the newest segment, and that the watermark is not beyond it:
//
//	durable <= synced <= position, last entry <= position, watermark <= synced
//
// It costs a few comparisons, and is called after each write that began a segment.
func (w *writer) checkEnd() error {
	if w.writing {
		return nil
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	seg, mark := w.active, &w.watermark.Written
	x := seg.index
	end := int64(format.HeaderSize)
	if n := len(x.Runs); n > 0 {
		end = x.Runs[n-1].End
	}
	switch {
	case seg != w.segments[len(w.segments)-1] || seg != w.live[len(w.live)-1]:
		return fmt.Errorf("segment %d is written to, but is not the newest", seg.Ordinal)
	case len(w.staged) > 0 || w.stagedNext != x.Next || seg.end != x.Next:
		return fmt.Errorf("%d frames are staged up to entry %d, the log ends at %d and the index at %d", len(w.staged), w.stagedNext-1, seg.end-1, x.Next-1)
	case end > w.position || w.synced > w.position || w.marked > w.position || w.position%format.FrameAlignment != 0:
		return fmt.Errorf("entries end at byte %d, the last mark at %d, what is synced at %d; the next frame goes to byte %d", end, w.marked, w.synced, w.position)
	case w.durable.Ordinal != seg.Ordinal || w.durable.Position > w.synced:
		return fmt.Errorf("segment %d is durable up to byte %d; segment %d is synced up to byte %d", w.durable.Ordinal, w.durable.Position, seg.Ordinal, w.synced)
	case w.watermark.known && (mark.Ordinal > seg.Ordinal || mark.Salt == seg.header.Salt && mark.Position > w.synced || mark.Term > w.hard.Term):
		return fmt.Errorf("the durable watermark is segment %d, byte %d, term %d; the log is durable up to segment %d, byte %d, term %d",
			mark.Ordinal, mark.Position, mark.Term, seg.Ordinal, w.synced, w.hard.Term)
	}
	return nil
}

// checkSnapshots checks that there is a snapshot to begin with, and none of an entry that the log
// does not have.
func (n *snapshots) checkSnapshots() error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for k, index := range n.kept {
		if k > 0 && n.kept[k-1] >= index || index >= n.active.index.Next {
			return fmt.Errorf("there are snapshots of entries %d in a log that ends at %d", n.kept, n.active.index.Next-1)
		}
	}
	if k := len(n.kept); k > 0 && len(n.rotten) == 0 && n.kept[k-1]+1 < n.live[0].First {
		return fmt.Errorf("the newest snapshot is of entry %d, the log begins at %d", n.kept[k-1], n.live[0].First)
	}
	return nil
}
