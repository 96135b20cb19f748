package judge

import (
	"strandline.dev/test/history"
)

// condition: an append that is to land at an offset lands there or nowhere.
type condition struct {
	idle
	court
}

func newCondition(c court, _ Options) rule { return &condition{court: c} }

func (k *condition) placed(p *placement) {
	r := p.record
	if r == nil || r.ambiguous || p.before.known || r.call.expected == none {
		return
	}
	if wanted := r.call.expected + int64(r.index); p.offset != wanted {
		k.accuse(p.book, []history.Place{r.call.invoked, p.at}, "record %016x was to be at offset %d, and is at %d", r.hash, wanted, p.offset)
	}
}
