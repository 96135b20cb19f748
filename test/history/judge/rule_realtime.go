package judge

import (
	"strandline.dev/test/history"
)

// realTime: the log's order is one that the clients could have seen happen.
type realTime struct {
	idle
	court
}

func newRealTime(c court, _ Options) rule { return &realTime{court: c} }

func (t *realTime) placed(p *placement) {
	r := p.record
	if r == nil || p.before.known || r.offsets != 1 {
		return
	}
	switch c := r.call; {
	case p.offset < c.acked.value:
		t.accuse(p.book, []history.Place{c.acked.at, c.invoked, p.at},
			"record %016x is at offset %d, though appends up to %d had been acknowledged before its own began", r.hash, p.offset, c.acked.value)
	case p.offset < c.seen.value:
		t.accuse(p.book, []history.Place{c.seen.at, c.invoked, p.at},
			"record %016x is at offset %d, though the log reached %d before its append began", r.hash, p.offset, c.seen.value)
	}
}
