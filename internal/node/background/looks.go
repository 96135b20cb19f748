package background

import (
	"context"
	"sync"
	"time"
)

// LookEvery is how often is looked for what is due, whether anything has changed or not.
const LookEvery = 200 * time.Millisecond

// LookSoon is the first pause between looks after the members or the connections have
// changed, when one step of a change follows another. The pause doubles up to
// LookEvery.
const LookSoon = 5 * time.Millisecond

// Looks paces a loop that looks for what is due.
type Looks struct {
	at      *Bell
	changed <-chan struct{}
	pause   time.Duration
}

// Next returns when it is time for another look; false: ctx has ended.
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
	l.changed = l.at.next() // before the look: what changes during it is not missed
	return true
}

// Bell wakes all who wait for it.
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

// Ring wakes those who wait now.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// Looks begins looks that the bell hastens.
func (b *Bell) Looks() Looks { return Looks{at: b, changed: b.next(), pause: LookSoon} }
