package history

// trim: the start of a log goes where somebody asked it to go, no further, and
// does not come back. Readers that need not be fresh may still see the start as
// it was.
type trim struct {
	idle
	court
}

func newTrim(c court, _ Options) rule { return &trim{court: c} }

func (t *trim) told(c *call, e *Event, at Place) {
	if e.Start == nil {
		return
	}
	t.asked(c.book, *e.Start, at)
	if c.linearizable() && *e.Start < c.start.value && e.Outcome != Failed && e.Outcome != Unknown {
		t.accuse(c.book, []Place{c.start.at, c.invoked, at}, "the log began at offset %d before, and again at %d", c.start.value, *e.Start)
	}
}

// asked holds a start against the trims that anyone has begun.
func (t *trim) asked(b *book, start int64, at Place) {
	if !b.retention && start > b.trims.value {
		t.accuse(b, []Place{b.trims.at, at}, "the log begins at offset %d, and nobody asked for more than %d", start, b.trims.value)
	}
}

func (t *trim) framed(c *call, e *Event, at Place) {
	switch {
	case len(e.Hashes) == 0:
	case e.Start != nil && *e.First < *e.Start:
		t.accuse(c.book, []Place{at}, "a frame has offset %d, and the log began at %d", *e.First, *e.Start)
	case c.linearizable() && *e.First < c.start.value:
		t.accuse(c.book, []Place{c.start.at, c.invoked, at}, "offset %d was read, though the log began at %d before", *e.First, c.start.value)
	}
}

func (t *trim) returned(c *call, e *Event, at Place) {
	if c.verb != Trim || e.Outcome != OK {
		return
	}
	if e.Start != nil && *e.Start < c.before {
		t.accuse(c.book, []Place{c.invoked, at}, "a trim to offset %d left the start at %d", c.before, *e.Start)
	}
	if e.End != nil && *e.End < c.before {
		t.accuse(c.book, []Place{c.invoked, at}, "a trim to offset %d left the end at %d", c.before, *e.End)
	}
}

func (t *trim) noted(e *Event, b *book, at Place) {
	if e.Kind == Replica && e.Start != nil {
		t.asked(b, *e.Start, at)
	}
}
