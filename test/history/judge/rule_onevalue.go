package judge

import (
	"strandline.dev/test/history"
)

// oneValue: once anyone was told what is at an offset, that is there for ever.
type oneValue struct {
	idle
	court
}

func newOneValue(c court, _ Options) rule { return &oneValue{court: c} }

func (o *oneValue) placed(p *placement) {
	if !p.before.known || p.before.hash == p.hash {
		return
	}
	if was := *p.before.evidence(p.acked); was != (history.Place{}) {
		o.accuse(p.book, []history.Place{was, p.at}, "offset %d has the values %016x and %016x", p.offset, p.before.hash, p.hash)
	}
}
