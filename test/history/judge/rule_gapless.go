package judge

import (
	"strandline.dev/test/history"
)

// gapless: within one read every frame begins where the one before ended.
type gapless struct {
	idle
	court
}

func newGapless(c court, _ Options) rule { return &gapless{court: c} }

func (g *gapless) reported(c *call, e *history.Event, at history.Place) {
	if c.verb != history.Read || e.Outcome == history.Failed || e.Outcome == history.Unknown {
		return
	}
	if e.Start != nil {
		if *e.Start < c.reportedStart {
			g.accuse(c.book, []history.Place{c.newest, at}, "the start of the log went back from %d to %d", c.reportedStart, *e.Start)
		}
		c.reportedStart = *e.Start
	}
	if e.End != nil {
		if *e.End < c.reportedEnd {
			g.accuse(c.book, []history.Place{c.newest, at}, "the end of the log went back from %d to %d", c.reportedEnd, *e.End)
		}
		c.reportedEnd = *e.End
	}
}

func (g *gapless) framed(c *call, e *history.Event, at history.Place) {
	if c.next == none || *e.First == c.next {
		return
	}
	before := c.newest
	if before == (history.Place{}) {
		before = c.invoked
	}
	g.accuse(c.book, []history.Place{before, at}, "the read was to continue at offset %d, and continued at %d", c.next, *e.First)
}

func (g *gapless) returned(c *call, e *history.Event, at history.Place) {
	if c.verb == history.Read && e.Outcome == history.OK && e.End != nil && c.next != none && c.next < *e.End {
		g.accuse(c.book, []history.Place{c.newest, at}, "the read ended at offset %d, and the log at %d", c.next, *e.End)
	}
}
