package judge

import (
	"slices"

	"strandline.dev/test/history"
)

// book is what is known of one log: which record is where, who said so, and the
// bounds that clients got as answers.
type book struct {
	name    string
	records map[uint64]*record // by hash
	slots   sparse[slot]       // by offset

	// acked is the highest end of an append that was acknowledged, seen the highest
	// end that a reader was shown. Both only rise, and so do the two below.
	acked, seen mark
	start       mark // the highest start that was reported
	fence       mark // the newest writer term that was granted

	retention bool
}

// record is one that somebody began to append.
type record struct {
	hash uint64
	// call began to append it first, as its number index. A record that failed
	// for certain and is appended again belongs to the later call.
	call  *call
	index int
	// attempts counts the calls that began to append it, failures those of them
	// that failed for certain.
	attempts, failures int
	failed             history.Place
	acked              bool
	// ambiguous: the attempts differ in session, epoch, number or condition, so
	// which of them got it into the log is not known.
	ambiguous bool
	// offsets counts where it was said to be; first and at are the first of them.
	offsets int
	first   int64
	at      history.Place
}

// plain reports whether neither a session nor a lane distinguishes the attempts.
func (r *record) plain() bool { return r.call.session == 0 && r.call.lane == "" }

func (r *record) sequence() uint64 { return r.call.sequence + uint64(r.index) }
func (r *record) number() uint64   { return r.call.number + uint64(r.index) }

func sameCheck(a, b *history.Check) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Since == b.Since && slices.Equal(a.Keys, b.Keys) && slices.Equal(a.Prefixes, b.Prefixes)
}

// slot is an offset of the log.
type slot struct {
	known  bool
	hash   uint64
	record *record       // nil: nobody began to append it
	acked  history.Place // the first line that acknowledged the record here
	shown  history.Place // the first line that showed a reader the record here
}

// placement is the word of one line that a record is at an offset.
type placement struct {
	book   *book
	offset int64
	hash   uint64
	record *record // nil: nobody began to append it
	call   *call   // the append that was acknowledged, or the read
	acked  bool
	at     history.Place
	before slot // what was known of the offset until now
}

// place takes a line's word. What was said of an offset first stays.
func (b *book) place(c *call, offset int64, hash uint64, acked bool, at history.Place) placement {
	r := b.records[hash]
	s := b.slots.at(offset)
	p := placement{b, offset, hash, r, c, acked, at, *s}
	if !s.known {
		s.known, s.hash, s.record = true, hash, r
		if r != nil {
			if r.offsets++; r.offsets == 1 {
				r.first, r.at = offset, at
			}
		}
	}
	if s.hash == hash {
		if evidence := s.evidence(acked); *evidence == (history.Place{}) {
			*evidence = at
		}
	}
	return p
}

func (s *slot) evidence(acked bool) *history.Place {
	if acked {
		return &s.acked
	}
	return &s.shown
}

// said returns the first line that showed the slot's record to a reader or, if there
// is none, the first that acknowledged it.
func (s *slot) said() history.Place {
	if s.shown != (history.Place{}) {
		return s.shown
	}
	return s.acked
}

// begin enters the records of an append.
func (b *book) begin(c *call, hashes history.Hashes) {
	c.records = make([]*record, len(hashes))
	for i, hash := range hashes {
		r := b.records[hash]
		switch {
		case r == nil:
			r = &record{hash: hash, call: c, index: i}
			b.records[hash] = r
		case r.failures == r.attempts && r.offsets == 0:
			r.call, r.index, r.ambiguous = c, i, false
		case !r.same(c, i):
			r.ambiguous = true
		}
		r.attempts++
		c.records[i] = r
	}
}

// same reports whether c begins to append r as the calls before did.
func (r *record) same(c *call, index int) bool {
	a := r.call
	return a.session == c.session && a.epoch == c.epoch && a.lane == c.lane && a.writer == c.writer && a.expected == c.expected && sameCheck(a.check, c.check) &&
		r.sequence() == c.sequence+uint64(index) && r.number() == c.number+uint64(index)
}
