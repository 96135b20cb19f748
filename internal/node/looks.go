package node

import (
	"context"
	"sync"
	"time"
)

// shapeSoon is the first pause between looks after the members or the connections have
// changed, when one step of a change follows another. The pause doubles up to
// shapeEvery.
const shapeSoon = 5 * time.Millisecond

// looks paces a loop that looks for what is due.
type looks struct {
	at      *bell
	changed <-chan struct{}
	pause   time.Duration
}

// next returns when it is time for another look; false: ctx has ended.
func (l *looks) next(ctx context.Context) bool {
	timer := time.NewTimer(l.pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-l.changed:
		l.pause = shapeSoon
	case <-timer.C:
		l.pause = min(2*l.pause, shapeEvery)
	}
	l.changed = l.at.next() // before the look: what changes during it is not missed
	return true
}

// bell wakes all who wait for it.
type bell struct {
	mu   sync.Mutex
	rung chan struct{}
}

func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

func (b *bell) looks() looks { return looks{at: b, changed: b.next(), pause: shapeSoon} }
