package repair

import (
	"sort"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// inventory describes each entry of a damaged log, from the frames in the order in which they
// were written:
//
//	whole      the entry is there
//	broken     its frame's header is there, its payload is not
//	missing    there was an entry, and nothing here shows which
//
// A lost frame may have truncated entries before it. From a loss on, therefore, every entry above
// the commit index known at that point is in doubt: it is there, but may not be the one in
// effect. Two things remove the doubt. Another replica shows by other evidence that it is the
// same entry, see Give; or an entry behind the damage has the same term: since (index, term)
// identifies an entry and all before it, both belong to the same history.
type inventory struct {
	first  uint64 // index of the first entry of the log
	spans  []span // in ascending order, without gaps, from first on
	commit uint64 // entries up to here can no longer be truncated

	// losses are the ordinals of the segments in which frames were lost, in the order in which they
	// would have been read. Losses are numbered from 1.
	losses []uint64
	// gap is set if frames were lost since the last valid one, the first of them in segment home.
	gap  bool
	home uint64
	// apart is set if the next entry begins a span, since it follows damaged bytes or frames of
	// truncated entries.
	apart bool

	nextOffset record.Offset // the lowest first offset that the next entry can have
}

type spanKind uint8

const (
	missing spanKind = iota
	broken
	whole
)

// span is a run of entries about which the same is known.
type span struct {
	first, last uint64
	kind        spanKind
	// doubt is the number of the loss that may have contained an entry that truncated these. For
	// missing entries the loss puts term in doubt. 0: there is no doubt.
	doubt int
	// term is the term of each of the entries. For missing ones it is the term of the entry that
	// follows them, or of the last of them if none does; 0 if it is not known. No missing entry has
	// a higher term, and an entry of that term belongs here.
	term uint64
	// home is the ordinal of the segment in which the entries are, or were.
	home uint64
	// crc is the payload CRC of a broken entry.
	crc uint32

	// from and begin locate whole entries: the frame of first is at begin or behind it, and from
	// there to the frame of last there are no other entries than those of the span.
	from  *source
	begin int64

	// start is the first offset of the first entry, stop the offset behind the last record of the
	// last entry. An end that was cut off is unknownOffset.
	start, stop record.Offset
}

// sound reports whether the entries are here and known to be those in effect.
func (s *span) sound() bool { return s.kind == whole && s.doubt == 0 }

const unknownOffset = record.Offset(-1)

// source is a file that contains frames.
type source struct {
	path string
	salt uint64
}

// next returns the index behind the last entry.
func (p *inventory) next() uint64 {
	if n := len(p.spans); n > 0 {
		return p.spans[n-1].last + 1
	}
	return p.first
}

// lose records that frames were lost in the segment home.
func (p *inventory) lose(home uint64) {
	p.apart = true
	if !p.gap {
		p.gap, p.home = true, home
		p.losses = append(p.losses, home)
	}
	if p.commit+1 >= p.next() {
		return
	}
	from := p.split(max(p.commit+1, p.first))
	for k := from; k < len(p.spans); k++ {
		if s := &p.spans[k]; s.doubt == 0 {
			s.doubt = len(p.losses)
		}
	}
}

// entry records the frame h of segment home: whole at position of from, or broken.
func (p *inventory) entry(h *format.FrameHeader, kind spanKind, home uint64, from *source, position int64) {
	p.reach(h.Index, h.Term)
	p.nextOffset = h.First + record.Offset(h.Count)
	apart := p.apart || kind == broken
	p.apart = kind == broken
	if n := len(p.spans); n > 0 && !apart {
		last := &p.spans[n-1]
		if last.kind == whole && last.from == from && last.term == h.Term && last.doubt == 0 && last.stop != unknownOffset {
			last.last, last.stop = h.Index, p.nextOffset
			return
		}
	}
	p.spans = append(p.spans, span{
		first: h.Index, last: h.Index, kind: kind, term: h.Term, home: home, crc: h.PayloadCRC,
		from: from, begin: position, start: h.First, stop: p.nextOffset,
	})
}

// state records a hard state that was written when last was the newest entry.
func (p *inventory) state(last uint64, hard segment.HardState) {
	if p.gap {
		p.reach(last+1, 0)
	}
	p.commit = max(p.commit, min(hard.Commit, p.next()-1))
}

// begin records the header of a segment. If it disagrees with the frames so far, frames were lost
// in the segment before it, and agrees is false.
func (p *inventory) begin(h *format.Header) (agrees bool) {
	agrees = p.gap || h.First <= p.next() && p.termAt(h.First-1, h.TermBefore) == h.TermBefore
	if !agrees {
		p.lose(h.Ordinal - 1)
	}
	p.reach(h.First, 0)
	p.agree(h.First, h.TermBefore)
	p.commit = max(p.commit, min(h.Hard.Commit, p.next()-1))
	p.nextOffset = h.Start
	return agrees
}

// termAt returns the term of an entry, or otherwise if it is not known.
func (p *inventory) termAt(i, otherwise uint64) uint64 {
	if k := p.at(i); k >= 0 && p.spans[k].kind != missing {
		return p.spans[k].term
	}
	return otherwise
}

// reach makes i the next entry: entries from i on were truncated, entries between the last one
// and i were lost. term is the term of entry i, or 0 if it is not known.
func (p *inventory) reach(i, term uint64) {
	p.cut(i)
	if next := p.next(); i > next {
		p.spans = append(p.spans, span{first: next, last: i - 1, home: p.home, start: unknownOffset, stop: unknownOffset})
	}
	p.gap = false
	if term > 0 {
		p.agree(i, term)
	}
}

// agree removes doubts about entries below i. term is the term of the last of them or of the
// entry at i: the preceding entries of that term are those that it follows, and those of a higher
// term were truncated.
func (p *inventory) agree(i, term uint64) {
	for k := len(p.spans) - 1; k >= 0 && (p.spans[k].doubt != 0 || p.spans[k].kind == missing); k-- {
		s := &p.spans[k]
		switch {
		case s.first >= i:
		case s.kind == missing:
			if s.last+1 == i {
				s.term, s.doubt = term, 0
			}
		case s.term == term:
			// The entries before it were certain until the loss that put it in doubt, unless they were in
			// doubt before.
			for since := s.doubt; k >= 0; k-- {
				if p.spans[k].doubt >= since {
					p.spans[k].doubt = 0
				}
			}
			return
		case s.term > term:
			*s = span{first: s.first, last: s.last, home: p.losses[s.doubt-1], term: term, start: unknownOffset, stop: unknownOffset}
		}
	}
}

// cut removes the entries from i on. Their frames remain in the file, so what follows begins a
// span even if it has the same term as the entries that remain.
func (p *inventory) cut(i uint64) {
	if i <= p.first {
		p.first, p.spans = i, nil
	} else if i < p.next() {
		p.spans, p.apart = p.spans[:p.split(i)], true
	}
}

// split makes a span begin at entry i and returns its number. For an index beyond the last entry
// it returns the number of spans.
func (p *inventory) split(i uint64) int {
	k := p.at(i)
	if k < 0 {
		return len(p.spans)
	}
	s := &p.spans[k]
	if s.first == i {
		return k
	}
	rest := *s
	rest.first, rest.start = i, unknownOffset
	s.last, s.stop = i-1, unknownOffset
	p.spans = append(p.spans, span{})
	copy(p.spans[k+2:], p.spans[k+1:])
	p.spans[k+1] = rest
	return k + 1
}

// at returns the number of the span that holds entry i, or -1 if there is none.
func (p *inventory) at(i uint64) int {
	k := sort.Search(len(p.spans), func(k int) bool { return p.spans[k].last >= i })
	if k == len(p.spans) || p.spans[k].first > i {
		return -1
	}
	return k
}

// put replaces the entries of s, which is whole.
func (p *inventory) put(s span) {
	from := p.split(s.first)
	to := p.split(s.last + 1)
	p.spans = append(p.spans[:from+1], p.spans[to:]...)
	p.spans[from] = s
}

// join merges span k with the one before it, whose frames precede those of k, if the same is
// known of both.
func (p *inventory) join(k int) {
	if k == 0 {
		return
	}
	a, b := &p.spans[k-1], &p.spans[k]
	if a.sound() && a.from == b.from && a.term == b.term && a.home == b.home {
		a.last, a.stop = b.last, b.stop
		p.spans = append(p.spans[:k], p.spans[k+1:]...)
	}
}

// wants returns the runs of entries that are not whole, see Repairer.Wants.
func (p *inventory) wants(limit int) []Want {
	var wants []Want
	for i := range p.spans {
		s := &p.spans[i]
		if s.sound() {
			continue
		}
		w := Want{First: s.first, Last: s.last, To: s.last + 1}
		if s.kind == broken && s.doubt == 0 {
			w.Term, w.CRC, w.Exact, w.To = s.term, s.crc, true, s.last
		}
		if n := len(wants); n > 0 && !w.Exact && !wants[n-1].Exact && wants[n-1].Last+1 == w.First {
			wants[n-1].Last, wants[n-1].To = w.Last, w.To
			continue
		}
		if len(wants) == limit {
			break
		}
		wants = append(wants, w)
	}
	return wants
}
