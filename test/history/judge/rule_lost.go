package judge

import (
	"strandline.dev/test/history"
)

// lost: a record that was acknowledged is at its offset whoever looks, as long
// as it has not been trimmed, and some replica still has it at the end.
type lost struct {
	idle
	court
	ends replicaEnds
}

func newLost(c court, _ Options) rule { return &lost{court: c, ends: replicaEnds{}} }

func (l *lost) placed(p *placement) {
	if !p.before.known || p.before.hash == p.hash {
		return
	}
	switch was := &p.before; {
	case !p.acked && was.acked != (history.Place{}):
		l.accuse(p.book, []history.Place{was.acked, p.at}, "record %016x was acknowledged at offset %d, where %016x was read", was.hash, p.offset, p.hash)
	case p.acked && was.shown != (history.Place{}):
		l.accuse(p.book, []history.Place{p.at, was.shown}, "record %016x was acknowledged at offset %d, where %016x was read", p.hash, p.offset, was.hash)
	}
}

func (l *lost) noted(e *history.Event, b *book, at history.Place) { l.ends.note(e, b, at) }

func (l *lost) closed() {
	for b, end := range l.ends {
		if acked := b.acked; acked.value > end.value {
			l.accuse(b, []history.Place{acked.at, end.at}, "appends were acknowledged up to offset %d, the replicas end at %d", acked.value, end.value)
		}
	}
}

// replicaEnds are the ends of those replicas that have most of each log.
type replicaEnds map[*book]mark

func (r replicaEnds) note(e *history.Event, b *book, at history.Place) {
	if e.Kind != history.Replica || e.End == nil {
		return
	}
	if end, known := r[b]; !known || *e.End > end.value {
		r[b] = mark{*e.End, at}
	}
}
