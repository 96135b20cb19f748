package judge

import (
	"strandline.dev/test/history"
)

// failed: a record whose every append failed for certain is nowhere.
type failed struct {
	idle
	court
}

func newFailed(c court, _ Options) rule { return &failed{court: c} }

func (f *failed) returned(c *call, e *history.Event, at history.Place) {
	if c.verb != history.Append || e.Outcome != history.Failed {
		return
	}
	for _, r := range c.records {
		if r.offsets > 0 && r.failures+1 == r.attempts {
			f.accuse(c.book, []history.Place{at, r.at}, "record %016x failed for certain (%s), and is at offset %d", r.hash, e.Reason, r.first)
		}
	}
}

func (f *failed) placed(p *placement) {
	if r := p.record; r != nil && !p.before.known && r.failures == r.attempts {
		f.accuse(p.book, []history.Place{r.failed, p.at}, "record %016x failed for certain, and is at offset %d", r.hash, p.offset)
	}
}
