package judge

import (
	"math"

	"strandline.dev/test/history"
)

// resolve: a resolve knows everything that was known of the record before it
// began: a record that is in the log is not pending or still to come, and neither
// is one of a session or epoch that has ended. What it says of never and
// committed is for the rule once.
type resolve struct {
	idle
	court
	// landed has for each record of a session the line that showed first that it is
	// in the log, by epoch and sequence.
	landed map[epochOf]*sparse[history.Place]
}

func newResolve(c court, _ Options) rule {
	return &resolve{court: c, landed: map[epochOf]*sparse[history.Place]{}}
}

func (v *resolve) invoked(c *call) {
	if c.verb != history.Resolve || c.sequence > math.MaxInt64 {
		return
	}
	if epoch := v.landed[epochOf{sessionOf{c.book, c.session}, c.epoch}]; epoch != nil {
		c.landed = *epoch.at(int64(c.sequence))
	}
}

func (v *resolve) placed(p *placement) {
	if p.record != nil {
		v.land(p.record, p.at)
	}
}

func (v *resolve) returned(c *call, e *history.Event, at history.Place) {
	switch {
	case e.Outcome != history.OK:
	case c.verb == history.Append:
		for _, r := range c.records {
			v.land(r, at)
		}
	case c.verb != history.Resolve || e.State != history.Pending && e.State != history.NotNow:
	case c.landed != (history.Place{}):
		v.accuse(c.book, []history.Place{c.landed, c.invoked, at}, "sequence %d of epoch %d of session %d was in the log before, and is said to be %s",
			c.sequence, c.epoch, c.session, e.State)
	case c.ended != (history.Place{}):
		v.accuse(c.book, []history.Place{c.ended, c.invoked, at}, "epoch %d of session %d had ended before, and sequence %d of it is said to be %s",
			c.epoch, c.session, c.sequence, e.State)
	}
}

// land notes that a record is in the log.
func (v *resolve) land(r *record, at history.Place) {
	if r.ambiguous || r.call.session == 0 || r.sequence() > math.MaxInt64 {
		return
	}
	epoch := epochOf{sessionOf{r.call.book, r.call.session}, r.call.epoch}
	if v.landed[epoch] == nil {
		v.landed[epoch] = &sparse[history.Place]{}
	}
	if first := v.landed[epoch].at(int64(r.sequence())); *first == (history.Place{}) {
		*first = at
	}
}
