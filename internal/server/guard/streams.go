package guard

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

// stream is a call that lasts, and ends when its holder loses a right that it relies on. Guard.mu guards it, except newest.
type stream struct {
	holder *Holder
	cancel context.CancelCauseFunc
	// uses are the rights by which the stream reads or watches. They are not those of the holder's decisions, which
	// are forgotten when the rules change.
	uses []use
	// newest is the newest of them. A stream that watches relies on the same one with each answer.
	newest atomic.Pointer[use]
	// rules are those under which the holder has all of uses, until expires as in held; nil: none.
	rules   *access.Rules
	expires int64
	// doubted is the time since when the holder is not believed. It is zero if it is, or if it has not
	// authenticated.
	doubted time.Time
}

// use is a right on an object.
type use struct {
	on    access.Object
	right access.Rights
}

type streamKey struct{}

// Stream returns a context for a long call from a context of Call. It ends when the caller loses a right by which the
// call reads or watches, or is no longer believed. The caller of Stream must call end after the call. It refuses a
// caller that has as many streams open as its quota allows.
func (g *Guard) Stream(ctx context.Context) (_ context.Context, end func(), err error) {
	h, _ := ctx.Value(holderKey{}).(*Holder)
	who := h.Whose()
	rules, _ := g.node.Rules()
	most, quota := limitOn(rules, who, Streams)
	ctx, cancel := context.WithCancelCause(ctx)
	s := &stream{holder: h, cancel: cancel}
	g.mu.Lock()
	defer g.mu.Unlock()
	if most > 0 && g.held[who] >= most {
		cancel(nil)
		return nil, nil, record.Refuse(record.Busy, "%s has %d streams open on this node, as many as the quota of %s allows: end some, then try again", who, g.held[who], quota)
	}
	g.held[who]++
	g.streams[s] = struct{}{}
	return context.WithValue(ctx, streamKey{}, s), func() {
		g.mu.Lock()
		delete(g.streams, s)
		if g.held[who]--; g.held[who] == 0 {
			delete(g.held, who)
		}
		g.mu.Unlock()
		cancel(nil)
	}, nil
}

// relies notes that the stream of a context, if it has one, relies on the right of a verb from now on. It is for verbs
// whose results a stream continues to send after the right was checked.
func (g *Guard) relies(ctx context.Context, v *Verb, name string) {
	s, _ := ctx.Value(streamKey{}).(*stream)
	if s == nil {
		return
	}
	u := use{v.Of(name), v.Right}
	if noted := s.newest.Load(); noted != nil && *noted == u {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(s.uses, u) {
		s.uses, s.rules = append(s.uses, u), nil
	}
	s.newest.Store(&u)
}

// endStreams ends the streams whose holders have lost a right by which they read or watch, and after farewellTime all
// streams of callers that are no longer believed. For want of a right alone, append streams are not ended: their next
// request is refused, and ending them would leave the outcome of earlier requests unknown. Connections with streams of
// callers that are believed are in use.
func (g *Guard) endStreams(rules *access.Rules, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.streams {
		u, lost := s.lost(rules)
		believed := g.Believed(s.holder)
		if c := s.holder.connection.Load(); believed && c != nil {
			c.inUse = at
		}
		if s.ends(believed, at) || lost {
			s.cancel(g.refused(&verbs.Caller{}, s.holder, "continue", u.right, u.on, rules))
			delete(g.streams, s)
		}
	}
}

// lost returns a right that the stream uses and its holder does not have, and reports whether there is one.
func (s *stream) lost(rules *access.Rules) (u use, lost bool) {
	if s.rules == rules && (s.expires == 0 || now() < s.expires) {
		return use{on: access.OfCluster}, false
	}
	s.rules, s.expires = rules, 0
	for _, u := range s.uses {
		d := s.holder.decide(rules, u.on, now)
		if s.expires = d.expires; !d.holds() || d.rights&u.right != u.right {
			return u, true
		}
	}
	return use{on: access.OfCluster}, false
}

// ends reports whether the holder of a stream was not believed for farewellTime.
func (s *stream) ends(believed bool, now time.Time) bool {
	switch {
	case believed:
		s.doubted = time.Time{}
	case s.doubted.IsZero():
		s.doubted = now
	}
	return !believed && now.Sub(s.doubted) >= farewellTime
}
