package judge

import (
	"strandline.dev/test/history"
)

// invented: what a reader is shown has an author, who began before.
type invented struct {
	idle
	court
}

func newInvented(c court, _ Options) rule { return &invented{court: c} }

func (i *invented) placed(p *placement) {
	if p.record == nil {
		i.accuse(p.book, []history.Place{p.at}, "offset %d has the value %016x, which nobody had begun to append", p.offset, p.hash)
	}
}

// oneValue: once an answer has shown which record is at an offset, it is there for ever.
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
