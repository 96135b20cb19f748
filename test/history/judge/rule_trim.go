package judge

import (
	"cmp"
	"slices"

	"strandline.dev/test/history"
)

// trim: the start of a log goes where a trim asked it to go that has not failed,
// no further, and does not come back. Readers that need not be fresh may still see
// the start as it was.
type trim struct {
	idle
	court
	// asked has where trims were to go that have not failed for certain, lowest
	// first.
	asked map[*book][]mark
}

func newTrim(c court, _ Options) rule { return &trim{court: c, asked: map[*book][]mark{}} }

func (t *trim) invoked(c *call) {
	if c.verb == history.Trim {
		asked := t.asked[c.book]
		i, _ := slices.BinarySearchFunc(asked, c.before, byValue)
		t.asked[c.book] = slices.Insert(asked, i, mark{c.before, c.invoked})
	}
}

func byValue(m mark, value int64) int { return cmp.Compare(m.value, value) }

// highest is where the furthest trim of a log was to go that has not failed.
func (t *trim) highest(b *book) mark {
	if asked := t.asked[b]; len(asked) > 0 {
		return asked[len(asked)-1]
	}
	return mark{}
}

// failed takes a trim out that was not done, and never will be.
func (t *trim) failed(c *call, at history.Place) {
	asked := t.asked[c.book]
	i, _ := slices.BinarySearchFunc(asked, c.before, byValue)
	for asked[i].at != c.invoked {
		i++
	}
	t.asked[c.book] = slices.Delete(asked, i, i+1)
	if start, most := c.book.start, t.highest(c.book).value; !c.book.retention && start.value > most && start.value <= c.before {
		t.accuse(c.book, []history.Place{c.invoked, at, start.at}, "a trim to offset %d failed for certain, and the log begins at %d", c.before, start.value)
	}
}

func (t *trim) reported(c *call, e *history.Event, at history.Place) {
	if e.Start == nil {
		return
	}
	t.justify(c.book, *e.Start, at)
	if c.linearizable() && *e.Start < c.start.value && e.Outcome != history.Failed && e.Outcome != history.Unknown {
		t.accuse(c.book, []history.Place{c.start.at, c.invoked, at}, "the log began at offset %d before, and again at %d", c.start.value, *e.Start)
	}
}

// justify holds a start against the trims that may have been done.
func (t *trim) justify(b *book, start int64, at history.Place) {
	if most := t.highest(b); !b.retention && start > most.value {
		t.accuse(b, []history.Place{most.at, at}, "the log begins at offset %d, and no trim beyond %d can have been done", start, most.value)
	}
}

func (t *trim) framed(c *call, e *history.Event, at history.Place) {
	switch {
	case len(e.Hashes) == 0:
	case e.Start != nil && *e.First < *e.Start:
		t.accuse(c.book, []history.Place{at}, "a frame has offset %d, and the log began at %d", *e.First, *e.Start)
	case c.linearizable() && *e.First < c.start.value:
		t.accuse(c.book, []history.Place{c.start.at, c.invoked, at}, "offset %d was read, though the log began at %d before", *e.First, c.start.value)
	}
}

func (t *trim) returned(c *call, e *history.Event, at history.Place) {
	if c.verb == history.Trim && e.Outcome == history.Failed {
		t.failed(c, at)
	}
	if c.verb != history.Trim || e.Outcome != history.OK {
		return
	}
	if e.Start != nil && *e.Start < c.before {
		t.accuse(c.book, []history.Place{c.invoked, at}, "a trim to offset %d left the start at %d", c.before, *e.Start)
	}
	if e.End != nil && *e.End < c.before {
		t.accuse(c.book, []history.Place{c.invoked, at}, "a trim to offset %d left the end at %d", c.before, *e.End)
	}
}

func (t *trim) noted(e *history.Event, b *book, at history.Place) {
	if e.Kind == history.Replica && e.Start != nil {
		t.justify(b, *e.Start, at)
	}
}
