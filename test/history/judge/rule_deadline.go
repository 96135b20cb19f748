package judge

import (
	"time"

	"strandline.dev/test/history"
)

// deadline: whatever happens to the servers, a client is not left waiting.
type deadline struct {
	idle
	court
	slack int64 // ns
}

func newDeadline(c court, o Options) rule { return &deadline{court: c, slack: int64(o.Slack)} }

func (d *deadline) returned(c *call, e *history.Event, at history.Place) {
	if late := e.Time - c.deadline; c.deadline != 0 && late > d.slack {
		d.accuse(c.book, []history.Place{c.invoked, at}, "call %d of client %s returned %s after its deadline", c.id, c.client, time.Duration(late))
	}
}

func (d *deadline) left(c *call, now int64) {
	if late := now - c.deadline; c.deadline != 0 && late > d.slack {
		d.accuse(c.book, []history.Place{c.invoked}, "call %d of client %s has not returned %s after its deadline", c.id, c.client, time.Duration(late))
	}
}
