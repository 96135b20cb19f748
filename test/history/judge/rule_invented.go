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
