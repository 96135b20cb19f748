package judge

import (
	"strandline.dev/test/history"
)

// group: whoever asks for the offset of a group gets none below one that was committed,
// or that somebody got, before; and only one that somebody has begun to commit. The members
// of a group commit what follows from where they began, so none commits less either.
type group struct {
	idle
	court
	offsets map[groupOf]*committed
}

type groupOf struct {
	book *book
	name string
}

type committed struct {
	highest mark
	asked   map[int64]bool
}

func newGroup(c court, _ Options) rule { return &group{court: c, offsets: map[groupOf]*committed{}} }

func (g *group) invoked(c *call) {
	if c.group == "" {
		return
	}
	of := g.offsets[groupOf{c.book, c.group}]
	if of == nil {
		of = &committed{asked: map[int64]bool{}}
		g.offsets[groupOf{c.book, c.group}] = of
	}
	c.committed = of.highest
	if c.verb == history.CommitOffset {
		of.asked[c.from] = true
	}
}

func (g *group) returned(c *call, e *history.Event, at history.Place) {
	if c.group == "" || e.Outcome != history.OK {
		return
	}
	of, offset, lines := g.offsets[groupOf{c.book, c.group}], offset(e.First), []history.Place{c.committed.at, c.invoked, at}
	switch {
	case c.verb == history.CommitOffset:
		if offset = c.from; offset < c.committed.value {
			g.accuse(c.book, lines, "group %s had committed offset %d, and a member went back to %d", c.group, c.committed.value, offset)
		}
	case max(offset, 0) < c.committed.value:
		g.accuse(c.book, lines, "group %s had committed offset %d, and later %d (-1: none)", c.group, c.committed.value, offset)
	case offset != none && !of.asked[offset]:
		g.accuse(c.book, lines, "group %s has committed offset %d, and nobody has asked for that", c.group, offset)
	}
	of.highest.raise(offset, at)
}
