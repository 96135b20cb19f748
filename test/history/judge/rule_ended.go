package judge

import (
	"math"

	"strandline.dev/test/history"
)

// ended: once an answer has said that a session, or an epoch of it, has ended, no
// append that begins later gets into the log under it. An implicit session may
// begin a higher epoch after its lease ran out; nothing follows a close.
type ended struct {
	idle
	court
	sessions map[sessionOf]epochAt // the epochs up to this one have ended
	opened   map[uint64]history.Place
}

func newEnded(c court, _ Options) rule {
	return &ended{court: c, sessions: map[sessionOf]epochAt{}, opened: map[uint64]history.Place{}}
}

func (n *ended) invoked(c *call) {
	if c.session == 0 {
		return
	}
	if end, has := n.sessions[sessionOf{c.book, c.session}]; has && c.epoch <= end.epoch {
		c.ended = end.at
	}
}

func (n *ended) returned(c *call, e *history.Event, at history.Place) {
	session := sessionOf{c.book, c.session}
	switch {
	case c.verb == history.CloseSession && e.Outcome == history.OK:
		n.sessions[session] = epochAt{math.MaxUint32, at}
	case c.verb == history.EndEpoch && e.Outcome == history.OK, c.verb == history.Append && c.refusedForEnd(e):
		if end, has := n.sessions[session]; !has || end.epoch < c.epoch {
			n.sessions[session] = epochAt{c.epoch, at}
		}
	case c.verb == history.OpenSession && e.Outcome == history.OK:
		if before, given := n.opened[e.Session]; given {
			n.accuse(c.book, []history.Place{before, at}, "session %d was opened twice", e.Session)
		}
		n.opened[e.Session] = at
	}
}

func (n *ended) placed(p *placement) {
	if r := p.record; r != nil && !p.before.known && r.call.ended != (history.Place{}) {
		n.accuse(p.book, []history.Place{r.call.ended, r.call.invoked, p.at}, "session %d had ended before the append of record %016x began, which is at offset %d",
			r.call.session, r.hash, p.offset)
	}
}

// refusedForEnd reports whether the session of c turned out to have ended. That an
// implicit session is not known says nothing: the record that opens it may still
// be on its way.
func (c *call) refusedForEnd(e *history.Event) bool {
	return e.Reason == "SESSION_EXPIRED" || e.Reason == "SESSION_NOT_FOUND" && !c.implicit
}
