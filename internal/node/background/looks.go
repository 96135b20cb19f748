package background

import (
	"context"
	"sync"
	"time"
)

// LookEvery is the interval between checks for due work when nothing has changed.
const LookEvery = 200 * time.Millisecond

// LookSoon is the first pause between checks after a change of the members or connections, while
// the steps of a change follow each other. The pause doubles up to LookEvery.
const LookSoon = 5 * time.Millisecond

// Looks paces a loop that checks for due work.
type Looks struct {
	at      *Bell
	changed <-chan struct{}
	pause   time.Duration
}

// Next returns when the next check is due. It returns false if ctx has ended.
func (l *Looks) Next(ctx context.Context) bool {
	timer := time.NewTimer(l.pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-l.changed:
		l.pause = LookSoon
	case <-timer.C:
		l.pause = min(2*l.pause, LookEvery)
	}
	l.changed = l.at.next() // before the round, so that no change during it is missed
	return true
}

// A Bell wakes all goroutines that wait for it.
type Bell struct {
	mu   sync.Mutex
	rung chan struct{}
}

func (b *Bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

// Ring wakes the goroutines that wait now.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// Looks returns a pacer whose next check comes sooner when the bell rings.
func (b *Bell) Looks() Looks { return Looks{at: b, changed: b.next(), pause: LookSoon} }

// Backoff spaces repeated attempts: the first pause is LookEvery, and each later pause is twice the
// previous one, up to a limit.
type Backoff struct {
	pause time.Duration
	next  time.Time
}

// Due reports whether the pause after the newest attempt has ended.
func (b *Backoff) Due(now time.Time) bool { return !now.Before(b.next) }

// Tried begins the pause after an attempt, and reports whether this was the first attempt.
func (b *Backoff) Tried(now time.Time, longest time.Duration) (first bool) {
	first = b.pause == 0
	b.pause = min(max(2*b.pause, LookEvery), longest)
	b.next = now.Add(b.pause)
	return first
}

// Pause waits for d or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
