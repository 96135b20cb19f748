package judge

import (
	"strandline.dev/test/history"
)

// digest: what a log has below an offset never changes, and all replicas have the same.
type digest struct {
	idle
	court
	known map[digestOf]said
}

// digestOf is a log up to an offset.
type digestOf struct {
	book    *book
	covered int64
}

type said struct {
	digest, node string
	at           history.Place
}

func newDigest(c court, _ Options) rule { return &digest{court: c, known: map[digestOf]said{}} }

func (d *digest) returned(c *call, e *history.Event, at history.Place) {
	if c.verb != history.Digest || e.Outcome != history.OK || e.Covered == nil {
		return
	}
	of := digestOf{c.book, *e.Covered}
	known, is := d.known[of]
	if !is {
		d.known[of] = said{e.Digest, c.node, at}
		return
	}
	d.report.Digests++
	if known.digest != e.Digest {
		d.accuse(c.book, []history.Place{known.at, c.invoked, at}, "the records below offset %d have digest %s on node %s, and %s on node %s",
			*e.Covered, known.digest, known.node, e.Digest, c.node)
	}
}
