package runtime

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/replica/core"
)

// Wheel ticks the replicas of a node, each when its core has something due. One goroutine turns it by a
// beat every TickMillis. A replica for which no time has to pass costs nothing.
//
// A nil wheel ticks nothing.
//
// A loop names the beat that it wants after each of its rounds. The wheel looks at the replica at that
// beat or before: a wish for a later beat is only noted, and the replica moves on when it is looked at.
type Wheel struct {
	began time.Time
	pulse atomic.Pointer[core.Pulse]
	beat  atomic.Int64 // number of the newest beat; mu guards changes

	mu     sync.Mutex
	slots  [wheelSlots][]*loop // by beat, modulo wheelSlots
	looked []*loop             // scratch
	due    []*loop             // scratch
}

// wheelSlots is the number of beats after which a replica with a later wish is looked at, 12.8 s.
const wheelSlots = 256

// never is the wish of a replica that needs no beat.
const never = math.MaxInt64

// wish is what a loop wants of its wheel.
type wish struct {
	named int64 // the last wish; the loop's own

	beat int64 // mu of the wheel guards it, and at
	at   int64 // beat at which the wheel looks at the loop; 0: at none
}

// NewWheel returns a wheel that does not turn yet.
func NewWheel() *Wheel {
	w := &Wheel{began: time.Now()}
	w.pulse.Store(&core.Pulse{})
	return w
}

// Turn turns the wheel to now, and returns how many replicas it has ticked. It must be called by
// one goroutine, every TickMillis. After a pause it ticks each replica once.
func (w *Wheel) Turn(now time.Time) (ticked int) {
	since := now.Sub(w.began)
	pulse := *w.pulse.Load()
	pulse.Beat(since.Milliseconds())
	w.pulse.Store(&pulse)

	to := int64(since / (core.TickMillis * time.Millisecond))
	w.mu.Lock()
	from := w.beat.Load() + 1
	w.beat.Store(max(to, from-1))
	for b := from; b <= to && b < from+wheelSlots; b++ {
		slot := &w.slots[b%wheelSlots]
		w.looked = append(w.looked, *slot...)
		clear(*slot)
		*slot = (*slot)[:0]
	}
	for _, l := range w.looked {
		switch {
		case l.wish.at == 0 || l.wish.at > to: // it has moved to another slot since
		case l.wish.beat > to:
			w.place(l)
		default:
			l.wish.at = 0
			w.due = append(w.due, l)
		}
	}
	w.mu.Unlock()
	clear(w.looked)
	w.looked = w.looked[:0]
	ticked = len(w.due)
	for _, l := range w.due {
		l.tick()
	}
	clear(w.due)
	w.due = w.due[:0]
	return ticked
}

// want makes the wheel tick a replica once, at the first beat that is not before due, see Due of
// the core's activity. Only the replica's loop may call it.
func (w *Wheel) want(l *loop, due int64) {
	if w == nil {
		return
	}
	beat := w.beat.Load() + 1
	switch {
	case due == core.Never:
		beat = never
	case due > 0:
		beat = max(beat, w.beatAt(l.started.Add(time.Duration(due)*time.Millisecond)))
	}
	if beat == l.wish.named {
		return
	}
	l.wish.named = beat
	w.mu.Lock()
	defer w.mu.Unlock()
	l.wish.beat = beat
	if l.wish.at == 0 || l.wish.at > beat {
		w.place(l)
	}
}

// place puts a replica into the slot of the beat that it wants, or of the last one if that is
// farther away.
func (w *Wheel) place(l *loop) {
	if l.wish.at = 0; l.wish.beat == never {
		return
	}
	beat := w.beat.Load()
	l.wish.at = min(max(l.wish.beat, beat+1), beat+wheelSlots)
	slot := &w.slots[l.wish.at%wheelSlots]
	*slot = append(*slot, l)
}

// beatAt returns the first beat that is not before t.
func (w *Wheel) beatAt(t time.Time) int64 {
	const tick = core.TickMillis * time.Millisecond
	return int64((t.Sub(w.began) + tick - 1) / tick)
}

// stalled returns how long the process has paused, see core.Pulse.
func (w *Wheel) stalled(now time.Time) int64 {
	if w == nil {
		return 0
	}
	return w.pulse.Load().Stalled(now.Sub(w.began).Milliseconds())
}
