package judge

import (
	"strandline.dev/test/history"
)

// commit: no reader is shown a record that is not committed. A frame lies below
// the end that it reports, and what anyone was shown stays.
type commit struct {
	idle
	court
	ends replicaEnds
}

func newCommit(c court, _ Options) rule { return &commit{court: c, ends: replicaEnds{}} }

func (k *commit) reported(c *call, e *history.Event, at history.Place) {
	if c.linearizable() && c.hasEnd(e) && *e.End < c.seen.value {
		k.accuse(c.book, []history.Place{c.seen.at, c.invoked, at}, "a reader was shown the log up to offset %d, a later one that it ends at %d", c.seen.value, *e.End)
	}
}

func (k *commit) framed(c *call, e *history.Event, at history.Place) {
	if end := *e.First + int64(len(e.Hashes)); len(e.Hashes) > 0 && e.End != nil && end > *e.End {
		k.accuse(c.book, []history.Place{at}, "a frame has records up to offset %d, its committed end is %d", end, *e.End)
	}
}

func (k *commit) noted(e *history.Event, b *book, at history.Place) { k.ends.note(e, b, at) }

func (k *commit) closed() {
	for b, end := range k.ends {
		if seen := b.seen; seen.value > end.value {
			k.accuse(b, []history.Place{seen.at, end.at}, "a reader was shown the log up to offset %d, the replicas end at %d", seen.value, end.value)
		}
	}
}
