package sequence

import (
	"slices"

	"strandline.dev/internal/record"
)

// standing is the current state of a session: the append that it accepts next.
type standing struct {
	epoch    record.Epoch
	next     record.Sequence // in epoch
	open     bool
	implicit bool // opened by its first batch; see record.MetaImplicit
}

// takes reports whether records from first on may be appended in epoch: they continue the current
// epoch, or begin a higher one. Only an implicit session resumes after its end, because its
// producer cannot open another one.
func (s standing) takes(epoch record.Epoch, first record.Sequence) bool {
	if epoch == s.epoch {
		return s.open && first == s.next
	}
	return epoch > s.epoch && first == 0 && (s.open || s.implicit)
}

// session is the state of one session according to the committed entries.
//
//	sequences of one epoch
//	0                 low-water                 next
//	|   forgotten         |  span   span  span   |  not in the log
//
// Spans are in order and do not overlap. They cover [lowWater, next) except for the oldest ones,
// which a limit may have made the log forget.
type session struct {
	standing
	id       record.SessionID
	lease    uint32 // ms
	lowWater record.Sequence
	spans    spanList // of the current epoch
	past     []life   // ended epochs with records, oldest first
	// knownFrom is the lowest epoch that spans and past describe completely; everything below it is
	// forgotten.
	knownFrom record.Epoch
	remember  int // spans of all epochs

	endedAt  int64    // time of the entry, Unix milliseconds; if not open
	endOrder uint64   // place among the ends, see sessionSet; if not open
	tag      *copyTag // of the sessionSet that may change the session in place
}

// clone returns a session for another set, which changes independently.
func (s *session) clone(tag *copyTag) *session {
	c := *s
	c.tag = tag
	c.spans = s.spans.clone()
	c.past = slices.Clone(s.past)
	for i := range c.past {
		c.past[i].spans = c.past[i].spans.clone()
	}
	return &c
}

// life is an ended epoch.
type life struct {
	epoch record.Epoch
	next  record.Sequence // its end: all sequences below were committed, all others never will be
	spans spanList
}

// span states that the records [first, first+count) are at the offsets [offset, offset+count).
type span struct {
	first  record.Sequence
	count  uint64
	offset record.Offset
}

func (p span) end() record.Sequence { return p.first + record.Sequence(p.count) }

// at returns the offset of a sequence inside the span.
func (p span) at(sequence record.Sequence) record.Offset {
	return p.offset + record.Offset(sequence-p.first)
}

// boundary returns the first sequence of an epoch that is not in the log. known is false for a
// forgotten epoch.
func (s *session) boundary(epoch record.Epoch) (next record.Sequence, known bool) {
	switch {
	case epoch < s.knownFrom:
		return 0, false
	case epoch == s.epoch:
		return s.next, true
	case epoch < s.epoch:
		if l := s.life(epoch); l != nil {
			return l.next, true
		}
	}
	return 0, true
}

// life returns an ended epoch with records, or nil.
func (s *session) life(epoch record.Epoch) *life {
	i, found := slices.BinarySearchFunc(s.past, epoch, func(l life, e record.Epoch) int {
		return int(int64(l.epoch) - int64(e))
	})
	if !found {
		return nil
	}
	return &s.past[i]
}

// find returns the span of an epoch that contains the sequence.
func (s *session) find(epoch record.Epoch, sequence record.Sequence) (p span, found bool) {
	if epoch == s.epoch {
		return s.spans.find(sequence)
	}
	if l := s.life(epoch); l != nil {
		return l.spans.find(sequence)
	}
	return span{}, false
}

// beginEpoch ends the current epoch and begins another one. The session remembers at most most
// ended ones.
func (s *session) beginEpoch(epoch record.Epoch, most int) {
	if s.next > 0 {
		s.past = append(s.past, life{epoch: s.epoch, next: s.next, spans: s.spans})
		s.spans = spanList{}
	}
	if len(s.past) > most {
		s.knownFrom = s.past[0].epoch + 1
		s.remember -= s.past[0].spans.len()
		s.past = slices.Delete(s.past, 0, 1)
	}
	s.epoch, s.next, s.lowWater = epoch, 0, 0
}

// take adds records to the current epoch.
func (s *session) take(count uint32, offset record.Offset) {
	if n := s.spans.len(); n > 0 {
		last := s.spans.at(n - 1)
		if last.end() == s.next && last.at(s.next) == offset {
			s.spans.extend(uint64(count))
			s.next += record.Sequence(count)
			return
		}
	}
	s.spans.pushBack(span{first: s.next, count: uint64(count), offset: offset})
	s.remember++
	s.next += record.Sequence(count)
}

// raiseLowWater forgets spans for which the client has answers. A span that contains the mark is
// cut there.
func (s *session) raiseLowWater(mark record.Sequence) {
	if mark <= s.lowWater {
		return
	}
	s.lowWater = mark
	for s.spans.len() > 0 {
		oldest := s.spans.at(0)
		if oldest.end() > mark {
			if oldest.first < mark {
				s.spans.cutFront(mark)
			}
			return
		}
		s.spans.popFront()
		s.remember--
	}
}

// forgetOldest forgets the oldest span of the oldest epoch that has one.
func (s *session) forgetOldest() {
	s.remember--
	for i := range s.past {
		if spans := &s.past[i].spans; spans.len() > 0 {
			spans.popFront()
			return
		}
	}
	s.spans.popFront()
}

// maxSpans returns the limit of remember.
func (s *session) maxSpans(l *Limits) int {
	if s.implicit {
		return l.SpansPerImplicit
	}
	return l.SpansPerSession
}
