package judge

import (
	"strandline.dev/test/history"
)

// order: the records of a session's epoch have the numbers 0, 1, 2, ... in the
// order of their offsets, and its epochs follow one another. Those of a lane
// have rising numbers; one may be missing only if its append had ended
// otherwise before the next in the log was begun.
type order struct {
	idle
	court
	epochs map[sessionOf]epochAt
	runs   map[epochOf]*run
	lanes  map[laneOf]*run
	// missed are the times, in ns, at which the records of a lane turned out not
	// to be acknowledged.
	missed map[laneOf]map[uint64]int64
	// blind is the offset below which the numbers of a log cannot be told apart,
	// because of an ambiguous record.
	blind map[*book]int64
}

type sessionOf struct {
	book    *book
	session uint64
}

type epochOf struct {
	sessionOf
	epoch uint32
}

type epochAt struct {
	epoch uint32
	at    history.Place
}

type laneOf struct {
	book *book
	lane string
}

// run is how far the numbers of an epoch or lane have come.
type run struct {
	last   uint64
	offset int64
	at     history.Place
}

func newOrder(c court, _ Options) rule {
	return &order{
		court: c, epochs: map[sessionOf]epochAt{}, runs: map[epochOf]*run{}, lanes: map[laneOf]*run{},
		missed: map[laneOf]map[uint64]int64{}, blind: map[*book]int64{},
	}
}

func (o *order) returned(c *call, e *history.Event, _ history.Place) {
	if c.verb != history.Append || c.lane == "" || e.Outcome == history.OK {
		return
	}
	lane := laneOf{c.book, c.lane}
	if o.missed[lane] == nil {
		o.missed[lane] = map[uint64]int64{}
	}
	for i := range c.records {
		o.missed[lane][c.number+uint64(i)] = e.Time
	}
}

func (o *order) swept(b *book, offset int64, s *slot, whole int64) {
	r := s.record
	if r == nil || r.ambiguous {
		o.blind[b] = offset + 1
		return
	}
	if offset != r.first {
		return // it is there twice, which is for another rule
	}
	whole = max(whole, o.blind[b])
	if r.call.session != 0 {
		o.inSession(r, offset, s.said(), whole)
	}
	if r.call.lane != "" {
		o.inLane(r, offset, s.said(), whole)
	}
}

func (o *order) inSession(r *record, offset int64, at history.Place, whole int64) {
	b := r.call.book
	session := sessionOf{b, r.call.session}
	epoch, sequence := r.call.epoch, r.sequence()
	if newest, known := o.epochs[session]; known && newest.epoch > epoch {
		o.accuse(b, []history.Place{newest.at, at}, "session %d: epoch %d at offset %d comes after epoch %d", session.session, epoch, offset, newest.epoch)
		return
	}
	o.epochs[session] = epochAt{epoch, at}
	before := o.runs[epochOf{session, epoch}]
	o.runs[epochOf{session, epoch}] = &run{sequence, offset, at}
	switch {
	case before == nil && sequence > 0 && whole == 0:
		o.accuse(b, []history.Place{at}, "session %d, epoch %d begins with sequence %d, at offset %d", session.session, epoch, sequence, offset)
	case before == nil:
	case sequence <= before.last:
		o.accuse(b, []history.Place{before.at, at}, "session %d: sequence %d at offset %d comes after sequence %d at offset %d",
			session.session, sequence, offset, before.last, before.offset)
	case sequence > before.last+1 && before.offset >= whole:
		o.accuse(b, []history.Place{before.at, at}, "session %d: sequence %d at offset %d follows sequence %d at offset %d, those between are missing",
			session.session, sequence, offset, before.last, before.offset)
	}
}

func (o *order) inLane(r *record, offset int64, at history.Place, whole int64) {
	b := r.call.book
	lane := laneOf{b, r.call.lane}
	number := r.number()
	before := o.lanes[lane]
	o.lanes[lane] = &run{number, offset, at}
	switch {
	case before == nil:
	case number <= before.last:
		o.accuse(b, []history.Place{before.at, at}, "lane %s: number %d at offset %d comes after number %d at offset %d",
			lane.lane, number, offset, before.last, before.offset)
	case before.offset >= whole:
		for n := before.last + 1; n < number; n++ {
			if known, answered := o.missed[lane][n]; !answered || known > r.call.began {
				o.accuse(b, []history.Place{before.at, r.call.invoked, at}, "lane %s: number %d at offset %d slipped ahead of number %d, which is missing",
					lane.lane, number, offset, n)
				break
			}
		}
	}
}
