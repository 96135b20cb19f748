package sim

import (
	"cmp"
	"math/bits"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/sequence"
)

// What Options.Hard adds: limits and shares of memory that a seed draws, from near the smallest
// that is legal up to those of production; consumers that are handed stored bytes by reference and
// look at them late; and a closer look at the end of worlds that end without an append.

// limits are what a seed of a hard world has drawn. All nodes have the same, as the nodes of a
// cluster have.
type limits struct {
	core        core.Limits
	leastStored int
	// Shares of memory, which a node makes anew with each process.
	tails, sending, received, sessions int64
}

// drawLimits draws the limits of a world.
func (w *world) drawLimits() *limits {
	of := core.DefaultLimits()
	l := &limits{core: of, leastStored: 1}
	t := &l.core.Table
	t.EntryTarget = int(w.upTo(4<<10, record.EntryTargetBytes))
	t.LeastSpans = int(w.upTo(leastWindow, sequence.MinSpansPerSession))
	t.SpansPerImplicit = int(w.upTo(leastWindow, sequence.MaxSpansPerImplicit))
	t.SpansPerSession = int(w.upTo(int64(t.LeastSpans), sequence.MaxSpansPerSession))
	t.Spans = int(w.upTo(int64(4*t.LeastSpans), sequence.MaxSpans))
	t.PastEpochs = int(w.upTo(2, sequence.MaxPastEpochs))
	t.Uncovered = uint64(w.upTo(2*hashEvery, sequence.MaxUncovered)) // else nothing would be hashed
	t.Hashed = int(w.upTo(16, sequence.MaxHashed))
	t.Attached = int(w.upTo(4, int64(of.Table.Attached)))
	l.core.Message = uint64(w.upTo(1<<10, int64(of.Message)))
	l.core.InFlight = uint64(w.upTo(int64(l.core.Message), int64(of.InFlight))) // as Raft demands
	l.core.Window = int(w.upTo(4<<10, int64(of.Window)))
	l.core.Queued = int(w.upTo(16<<10, int64(of.Queued)))
	l.core.Feed.Least = w.upTo(1<<10, of.Feed.Least)
	l.core.Feed.Bytes = w.upTo(l.core.Feed.Least, of.Feed.Bytes)
	l.core.Feed.Ranges = int(w.upTo(2, int64(of.Feed.Ranges)))
	l.tails, l.sending, l.received = w.upTo(16<<10, 512<<20), w.upTo(16<<10, 256<<20), w.upTo(16<<10, 256<<20)
	l.sessions = w.upTo(256<<10, 256<<20) // all sessions of a run that are open at once
	return l
}

// drawIdleness draws how soon a log is idle, besides what a hard world has drawn.
func (w *world) drawIdleness(l *limits) *limits {
	of := core.DefaultLimits()
	if l == nil {
		m := budget.New(8 << 30)
		l = &limits{core: of, tails: m.Tails.Size(), sending: m.Sending.Size(), received: m.Received.Size(), sessions: m.Sessions.Size()}
	}
	l.core.Idle = int(w.upTo(1, int64(of.Idle)))
	l.core.Release = w.upTo(core.TickMillis, of.Release)
	return l
}

// leastWindow is more than a client has in flight, which a log has to remember.
const leastWindow = 10

// upTo draws from [low, high], as often about low as about twice that, and so on.
func (w *world) upTo(low, high int64) int64 {
	doublings := bits.Len64(uint64(high / low))
	at := low << w.random.IntN(doublings)
	return min(at+w.random.Int64N(at), high)
}

// memory is what a process has.
func (l *limits) memory() *budget.Memory {
	if l == nil {
		return nil
	}
	m := budget.New(8 << 30)
	m.Tails, m.Sending, m.Received, m.Sessions = budget.NewShares(l.tails), budget.NewShares(l.sending), budget.NewShares(l.received), budget.NewShares(l.sessions)
	return m
}

func (l *limits) ofCore() *core.Limits {
	if l == nil {
		return nil
	}
	return &l.core
}

// limitsOf are those of a world, drawn or not.
func (w *world) limitsOf() core.Limits {
	if w.limits == nil {
		return core.DefaultLimits()
	}
	return w.limits.core
}

// remembers is how many appends a session may rely on, one of Kafka's producers, and how many epochs.
func (w *world) remembers() (appends, implicit, epochs int) {
	t := w.limitsOf().Table
	if w.limits == nil {
		return t.SpansPerSession, t.SpansPerImplicit, t.PastEpochs
	}
	return min(t.SpansPerSession, t.LeastSpans), min(t.SpansPerImplicit, t.LeastSpans), t.PastEpochs
}

// scrubAll looks at all that replicas have stored, and reports whether it is whole. What is not
// is repaired, as when a node comes upon it.
func (w ending) scrubAll(holders []*node) (whole bool) {
	whole = true
	for _, n := range holders {
		stored, ok := n.log.(*store.Store)
		if !ok {
			continue
		}
		life, found := n.life, error(nil)
		n.act(life, func() {
			if err := stored.Scrub(nil, func(err error) { found = cmp.Or(found, err) }); err != nil {
				found = cmp.Or(found, err)
			}
			if found != nil {
				n.foundDamage(found)
			}
		})
		whole = whole && found == nil && n.life == life
	}
	return whole
}

// leastStored is what a batch must have to be handed out as bytes of a file; 0: as in production.
func (w *world) leastStored() int {
	if w.limits == nil {
		return 0
	}
	return w.limits.leastStored
}
