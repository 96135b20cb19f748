package judge

import (
	"strandline.dev/test/history"
)

// written: a record that a leader has written, and answered before it was
// durable, may be lost. If it is in the log, it is where the leader said.
type written struct {
	idle
	court
	records map[*record]mark // where they were said to be
}

func newWritten(c court, _ Options) rule { return &written{court: c, records: map[*record]mark{}} }

func (w *written) returned(c *call, e *history.Event, at history.Place) {
	if c.verb != history.Append || e.Written == nil {
		return
	}
	for i, r := range c.records {
		said := mark{*e.Written + int64(i), at}
		w.records[r] = said
		if r.offsets > 0 {
			w.compare(c.book, r, said, r.first, r.at)
		}
	}
}

func (w *written) placed(p *placement) {
	if said, was := w.records[p.record]; was && p.record != nil && !p.before.known {
		w.compare(p.book, p.record, said, p.offset, p.at)
	}
}

// compare leaves out what was sent again, which may have come in the second time.
func (w *written) compare(b *book, r *record, said mark, offset int64, at history.Place) {
	if r.attempts == 1 && said.value != offset {
		w.accuse(b, []history.Place{said.at, at}, "record %016x was said to be written at offset %d, and is at %d", r.hash, said.value, offset)
	}
}
