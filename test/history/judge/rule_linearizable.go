package judge

import (
	"strandline.dev/test/history"
)

// linearizable: a read that is to know everything that was acknowledged before
// it began does, whichever node it asks; and one that is to know the log up to
// an offset knows that much.
type linearizable struct {
	idle
	court
}

func newLinearizable(c court, _ Options) rule { return &linearizable{court: c} }

func (l *linearizable) reported(c *call, e *history.Event, at history.Place) {
	if !c.hasEnd(e) {
		return
	}
	if c.linearizable() && *e.End < c.acked.value {
		l.accuse(c.book, []history.Place{c.acked.at, c.invoked, at}, "appends up to offset %d had been acknowledged before, the log is said to end at %d", c.acked.value, *e.End)
	}
	if c.consistency == history.AtLeast && *e.End < c.least {
		l.accuse(c.book, []history.Place{c.invoked, at}, "the read was to know the log up to offset %d, and knows it up to %d", c.least, *e.End)
	}
}
