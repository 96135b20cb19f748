package judge

import (
	"time"

	"strandline.dev/test/history"
)

// lease: a session ends when its client closes it, or when its lease has run out
// since the newest call that the log took for a sign of life.
type lease struct {
	idle
	court
	sessions map[sessionOf]*leased
}

// leased is what is known of the lease of a session.
type leased struct {
	length int64 // ns
	// alive is the time, in ns, at which the newest call began that only an open
	// session answers as it did.
	alive mark
	over  bool // somebody asked to close it, or got the answer that it has ended
}

const (
	// leaseSlack is by how much a lease may be shorter: leaders count it in ticks,
	// from the tick before the sign of life.
	leaseSlack = int64(200 * time.Millisecond)
	// implicitLease is what sessions have in any case that their first record opens. It
	// is a day where they do not crowd the log.
	implicitLease = int64(5 * time.Minute)
)

func newLease(c court, _ Options) rule { return &lease{court: c, sessions: map[sessionOf]*leased{}} }

func (l *lease) invoked(c *call) {
	if s := l.sessions[sessionOf{c.book, c.session}]; s != nil && c.verb == history.CloseSession {
		s.over = true
	}
}

func (l *lease) returned(c *call, e *history.Event, at history.Place) {
	session := sessionOf{c.book, c.session}
	s := l.sessions[session]
	switch {
	case c.verb == history.OpenSession && e.Outcome == history.OK && c.lease > 0:
		l.sessions[sessionOf{c.book, e.Session}] = &leased{length: c.lease, alive: mark{c.began, c.invoked}}
	case c.session == 0:
	case s == nil && c.implicit && c.signOfLife(e):
		l.sessions[session] = &leased{length: implicitLease, alive: mark{c.began, c.invoked}}
	case s == nil:
	case c.signOfLife(e):
		s.alive.raise(c.began, c.invoked)
	case (c.verb == history.Append || c.verb == history.KeepSession) && c.refusedForEnd(e):
		if lived := e.Time - s.alive.value; !s.over && lived < s.length-leaseSlack {
			l.accuse(c.book, []history.Place{s.alive.at, at}, "session %d has ended %s after a sign of life, its lease is %s",
				c.session, time.Duration(lived), time.Duration(s.length))
		}
		s.over = true
	}
}

// signOfLife reports whether the answer shows that the session of c was open when
// c arrived. A record that was sent before may be a duplicate, which is answered
// for a session that has ended too.
func (c *call) signOfLife(e *history.Event) bool {
	if e.Outcome != history.OK || c.verb != history.Append && c.verb != history.KeepSession {
		return false
	}
	for _, r := range c.records {
		if r.attempts > 1 {
			return false
		}
	}
	return true
}
