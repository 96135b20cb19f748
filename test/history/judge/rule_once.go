package judge

import (
	"strandline.dev/test/history"
)

// once: with a session or lane, a record is in the log once however often it
// was sent; without, as often as it may have succeeded. Whoever asks again, by
// sending or by resolving, gets the same answer.
type once struct {
	idle
	court
	states map[sequenced][]resolution
	places map[place][]resolution // those that are committed
}

// sequenced is a record as its session numbers it.
type sequenced struct {
	book     *book
	session  uint64
	epoch    uint32
	sequence uint64
}

func (s sequenced) of(r *record) bool {
	return s == sequenced{s.book, r.call.session, r.call.epoch, r.sequence()}
}

type place struct {
	book   *book
	offset int64
}

// resolution is the outcome of a record as an answer reported it.
type resolution struct {
	sequenced
	state  history.State
	offset int64
	at     history.Place
}

func newOnce(c court, _ Options) rule {
	return &once{court: c, states: map[sequenced][]resolution{}, places: map[place][]resolution{}}
}

func (o *once) placed(p *placement) {
	r := p.record
	if r == nil || p.before.known || r.offsets < 2 {
		return
	}
	if !r.plain() || r.offsets > r.attempts-r.failures {
		o.accuse(p.book, []history.Place{r.at, p.at}, "record %016x is at offset %d and at offset %d", r.hash, r.first, p.offset)
	}
}

func (o *once) returned(c *call, e *history.Event, at history.Place) {
	if c.verb != history.Resolve || e.Outcome != history.OK || e.State != history.Committed && e.State != history.Never {
		return
	}
	r := resolution{sequenced{c.book, c.session, c.epoch, c.sequence}, e.State, offset(e.First), at}
	o.states[r.sequenced] = append(o.states[r.sequenced], r)
	if e.State == history.Committed && e.First != nil {
		at := place{c.book, *e.First}
		o.places[at] = append(o.places[at], r)
	}
}

func (o *once) swept(b *book, at int64, s *slot, _ int64) {
	r := s.record
	if r == nil || r.ambiguous || len(o.states) == 0 {
		return
	}
	for _, t := range o.states[sequenced{b, r.call.session, r.call.epoch, r.sequence()}] {
		switch {
		case t.state == history.Never:
			o.accuse(b, []history.Place{t.at, s.said()}, "sequence %d of session %d was to be never in the log, and is at offset %d", t.sequence, t.session, at)
		case t.offset != none && t.offset != at:
			o.accuse(b, []history.Place{t.at, s.said()}, "sequence %d of session %d was resolved to offset %d, and is at offset %d", t.sequence, t.session, t.offset, at)
		}
	}
	for _, t := range o.places[place{b, at}] {
		if !t.of(r) {
			o.accuse(b, []history.Place{t.at, s.said()}, "sequence %d of session %d was resolved to offset %d, where another record is", t.sequence, t.session, at)
		}
	}
}
