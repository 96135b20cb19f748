package judge

import (
	"cmp"
	"time"

	"strandline.dev/test/history"
)

// forgotten: a log has to remember where the records of a session are, until the
// client says that it has the answers, or as many others have come as docs/limits.md
// allows for.
type forgotten struct {
	idle
	court
	sessions map[sessionOf]*remembered
	most     Options
	count    map[*book]int // sessions that the log is known to have had
}

// remembered is what a log has received in a session.
type remembered struct {
	known  bool // the log is known to have it
	alive  int64
	epochs map[uint32]*rememberedEpoch
}

type rememberedEpoch struct {
	known    bool   // the log is known to have records of it
	lowWater uint64 // the highest that was sent
	next     uint64 // after the highest sequence that was sent
}

// What a log may forget. An append takes a place of its own at most.
const (
	rememberedAppends  = 65_536  // of a session
	rememberedImplicit = 64      // of a session that its first record opens
	rememberedEpochs   = 64      // of a session
	rememberedSessions = 100_000 // that have ended
	// A session that has ended is remembered for 24 h, by clocks that may be wrong by
	// some hours.
	rememberedTime = int64(20 * time.Hour)
)

func newForgotten(c court, o Options) rule {
	o.Appends, o.ImplicitAppends = cmp.Or(o.Appends, rememberedAppends), cmp.Or(o.ImplicitAppends, rememberedImplicit)
	o.Epochs = cmp.Or(o.Epochs, rememberedEpochs)
	return &forgotten{court: c, most: o, sessions: map[sessionOf]*remembered{}, count: map[*book]int{}}
}

func (f *forgotten) invoked(c *call) {
	if c.session == 0 {
		return
	}
	s := f.session(sessionOf{c.book, c.session})
	epoch := s.epochs[c.epoch]
	c.remembered = s.known && (!c.implicit || epoch != nil && epoch.known)
	if c.verb == history.Append {
		epoch = s.epoch(c.epoch)
		epoch.lowWater = max(epoch.lowWater, c.lowWater)
		epoch.next = max(epoch.next, c.sequence+c.count)
	}
}

func (f *forgotten) session(of sessionOf) *remembered {
	s := f.sessions[of]
	if s == nil {
		s = &remembered{epochs: map[uint32]*rememberedEpoch{}}
		f.sessions[of] = s
	}
	return s
}

func (s *remembered) epoch(of uint32) *rememberedEpoch {
	e := s.epochs[of]
	if e == nil {
		e = &rememberedEpoch{}
		s.epochs[of] = e
	}
	return e
}

func (f *forgotten) returned(c *call, e *history.Event, at history.Place) {
	if e.Outcome != history.OK {
		return
	}
	session := c.session
	if c.verb == history.OpenSession {
		session = e.Session
	}
	if session == 0 {
		return
	}
	s := f.session(sessionOf{c.book, session})
	switch {
	case c.verb == history.Append && e.Forgotten, c.verb == history.Resolve && e.State == history.Gone:
		if c.remembered && !f.mayForget(c, s, e.Time) {
			f.accuse(c.book, []history.Place{c.invoked, at}, "sequence %d of epoch %d of session %d was forgotten, and nothing allows for that", c.sequence, c.epoch, c.session)
		}
	case c.verb == history.Append, c.verb == history.OpenSession, c.verb == history.KeepSession:
		if !s.known {
			s.known = true
			f.count[c.book]++
		}
		if s.alive = e.Time; c.verb == history.Append {
			s.epoch(c.epoch).known = true
		}
	}
}

// mayForget reports whether the log may have forgotten the first record of c by
// now, in ns.
func (f *forgotten) mayForget(c *call, s *remembered, now int64) bool {
	epochs, later := 0, uint64(0)
	for number, epoch := range s.epochs {
		switch {
		case number == c.epoch && epoch.lowWater > c.sequence:
			return true
		case number == c.epoch:
			later += epoch.next - min(epoch.next, c.sequence+1)
		case number > c.epoch:
			epochs++
			later += epoch.next
		}
	}
	most := uint64(f.most.Appends)
	if c.implicit {
		most = uint64(f.most.ImplicitAppends)
	}
	return later >= most || epochs >= f.most.Epochs || f.count[c.book] >= rememberedSessions || now-s.alive >= rememberedTime
}
