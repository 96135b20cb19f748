package repair

import (
	"sort"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// inventory is what is known of each entry of a damaged log, from its frames in
// the order in which they were written:
//
//	whole      the entry is there
//	broken     its frame's header is there, its payload is not
//	missing    there was one, and nobody here knows which
//
// Where frames were lost, one of them may have truncated entries in front of
// them. So what is above the commit index as it was known there is in doubt
// from then on: it is there, and may not be what counted. Two things end the
// doubt. The one who has the entry by other evidence says the same, see Give;
// or an entry behind the damage has the same term: (index, term) names an entry
// and all in front of it, so what the one belongs to belongs to the other.
type inventory struct {
	first  uint64 // the log begins there
	spans  []span // rising, without gaps, from first on
	commit uint64 // entries up to here cannot be truncated any more

	// losses are the ordinals of the segments in which something was lost, in
	// the order in which it would have been read; the first is number 1.
	losses []uint64
	// gap: something was lost since the last valid frame, first in segment home.
	gap  bool
	home uint64
	// apart: the next entry begins a span, since bytes in front of it are damaged, or frames of
	// entries that it takes the place of.
	apart bool

	nextOffset record.Offset // the lowest first offset that the next entry can have
}

type spanKind uint8

const (
	missing spanKind = iota
	broken
	whole
)

// span is entries one after the other of which the same is known.
type span struct {
	first, last uint64
	kind        spanKind
	// doubt is the number of the loss in which an entry may have been that
	// truncated these, or of missing ones what term shows of them; 0: there
	// is none.
	doubt int
	// term is that of each of the entries. For missing ones it is that of what
	// follows them, or of the last of them if nothing does; 0 if that is not
	// known. None of them has a higher one, and an entry of that term belongs
	// here.
	term uint64
	// home is the ordinal of the segment in which the entries are, or were.
	home uint64
	// crc of the payload of a broken entry.
	crc uint32

	// Where whole entries are: the frame of first is at begin or behind, and
	// up to that of last there are no others but those in between.
	from  *source
	begin int64

	// start is the first offset of the first entry, stop the one behind the
	// last record of the last; unknownOffset if an end was cut off.
	start, stop record.Offset
}

// sound reports whether the entries are here, and are those that count.
func (s *span) sound() bool { return s.kind == whole && s.doubt == 0 }

const unknownOffset = record.Offset(-1)

// source is a file with frames.
type source struct {
	path string
	salt uint64
}

// next is one beyond the last entry.
func (p *inventory) next() uint64 {
	if n := len(p.spans); n > 0 {
		return p.spans[n-1].last + 1
	}
	return p.first
}

// lose notes that frames were lost in the segment home.
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

// entry notes the frame h of home: whole at position of from, or broken.
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

// state notes a hard state that was written when last was the newest entry.
func (p *inventory) state(last uint64, hard segment.HardState) {
	if p.gap {
		p.reach(last+1, 0)
	}
	p.commit = max(p.commit, min(hard.Commit, p.next()-1))
}

// begin notes the header of a segment. If it disagrees with the frames so far,
// some were lost in the segment before, and agrees is false.
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

// termAt returns the term of an entry; otherwise if it is not known.
func (p *inventory) termAt(i, otherwise uint64) uint64 {
	if k := p.at(i); k >= 0 && p.spans[k].kind != missing {
		return p.spans[k].term
	}
	return otherwise
}

// reach makes i the next entry: those from it on were truncated, those up to
// it were lost. term is that of the entry to come, 0 if it is not known.
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

// agree ends doubts about entries below i, by the term of the last of them or
// of the one at i: the entries in front of it of the same term are those which
// it follows, and those of a higher one were truncated.
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
			// Those in front of it were so when the loss came that put it in
			// doubt, unless they were in doubt before.
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

// cut forgets the entries from i on. Their frames stay where they are, and so what follows begins a span,
// even if it is of the same term as what is left.
func (p *inventory) cut(i uint64) {
	if i <= p.first {
		p.first, p.spans = i, nil
	} else if i < p.next() {
		p.spans, p.apart = p.spans[:p.split(i)], true
	}
}

// split returns the number of the span that begins at entry i, and makes it
// begin there. For one beyond the last it is the number of spans.
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

// at returns the number of the span that holds entry i; -1 if there is none.
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

// join makes one span of the one numbered k and the one before, whose frames
// follow each other, if it can.
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

// wants returns what is not whole, see Repairer.Wants.
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
