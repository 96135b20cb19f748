package repair

import (
	"fmt"
	"slices"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// proof decides which entries of other replicas are those that were here, see Repairer.Give.
type proof struct {
	*inventory
	// commit is the index up to which entries are committed: those that were here and those that
	// replace them.
	commit uint64
	term   uint64 // of the hard state
}

// prove returns which of frames are wanted and belong here, and updates the commit index. lost is
// the first index at which the entry that was here differs from the one that other replicas have
// committed; 0 if there is none.
func (p *proof) prove(frames []segment.Entry, committed uint64) (proven []bool, lost uint64) {
	proven = make([]bool, len(frames))
	follows := false // the next frame was here
	for k := len(frames) - 1; k >= 0; k-- {
		f := &frames[k]
		if k+1 < len(frames) && frames[k+1].Index != f.Index+1 {
			follows = false
		}
		at := p.at(f.Index)
		if at < 0 || !valid(f) {
			follows = false
			continue
		}
		s := &p.spans[at]
		known, same := s.knows(f)
		follows = same || follows && !known
		proven[k] = follows && !s.sound()
		switch {
		case f.Index > committed:
		case follows:
			p.commit = max(p.commit, f.Index)
		case known:
			lost = f.Index
		}
	}
	for k := range frames {
		f := &frames[k]
		if at := p.at(f.Index); at >= 0 && valid(f) && f.Index <= committed && !proven[k] {
			contradicts := false
			proven[k], contradicts = p.counts(f, at)
			if contradicts && (lost == 0 || f.Index < lost) {
				lost = f.Index
			}
		}
	}
	return proven, lost
}

// counts reports whether f, which is committed and wanted in the span numbered at, can be taken
// for that reason alone, and otherwise whether it contradicts what is known of the entry that was
// here.
func (p *proof) counts(f *segment.Entry, at int) (yes, contradicts bool) {
	s := &p.spans[at]
	known, _ := s.knows(f)
	switch {
	case known:
	case f.Index <= p.commit:
		return true, false
	case p.knowsFrom(at + 1): // the entries that follow decide
	case !s.loose() && f.Index < s.last: // the last entry of the span decides
	case !s.loose(), f.Term > p.term:
		return false, true // the entry that was here was of another term
	case f.Index == p.commit+1:
		p.commit = f.Index
		return true, false
	}
	return false, false
}

// knows reports whether it is known which entry was at the index of f, and whether it is f.
func (s *span) knows(f *segment.Entry) (known, same bool) {
	switch {
	case s.loose():
		return false, false
	case s.kind == whole:
		return true, s.term == f.Term
	case s.kind == broken:
		return true, s.term == f.Term && s.crc == f.CRC
	}
	return f.Term > s.term, f.Term == s.term
}

// loose reports whether nothing is known about the entries of s.
func (s *span) loose() bool { return s.doubt != 0 || s.kind == missing && s.term == 0 }

// knowsFrom reports whether anything is known of the entries from the span
// numbered k on.
func (p *inventory) knowsFrom(k int) bool {
	return slices.ContainsFunc(p.spans[k:], func(s span) bool { return !s.loose() })
}

// forsaken returns ErrNotRepairable if entries are missing that no replica need have, since other
// replicas have committed a different entry at lost. Missing entries below that can still be
// proven by those that follow them.
func (p *proof) forsaken(lost uint64) error {
	if lost == 0 {
		return nil
	}
	for _, s := range p.spans {
		if !s.sound() && (s.last >= lost || s.last+1 == lost && (s.kind == missing || s.doubt != 0)) {
			return fmt.Errorf("%w: other replicas committed a different entry %d, and entries %d to %d are missing here",
				ErrNotRepairable, lost, s.first, s.last)
		}
	}
	return nil
}

// valid reports whether f can be an entry of any log.
func valid(f *segment.Entry) bool {
	return len(f.Payload) <= format.MaxPayload && f.First >= 0 && f.Index > 0 && record.Checksum(f.Payload) == f.CRC
}
