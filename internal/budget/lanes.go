package budget

import (
	"context"
	"sync"
)

// Lanes have each holder do something costly one at a time, in the order in which it asks.
type Lanes struct {
	mu sync.Mutex
	of map[string]*lane
}

type lane struct {
	taken chan struct{} // has room for one
	users int           // that have the lane or wait for it
}

// NewLanes returns lanes that are all free.
func NewLanes() *Lanes { return &Lanes{of: map[string]*lane{}} }

// Acquire waits until the holder does nothing else. The error is that of ctx.
func (l *Lanes) Acquire(ctx context.Context, holder string) error {
	l.mu.Lock()
	own := l.of[holder]
	if own == nil {
		own = &lane{taken: make(chan struct{}, 1)}
		l.of[holder] = own
	}
	own.users++
	l.mu.Unlock()
	select {
	case own.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		l.leave(holder, own)
		return ctx.Err()
	}
}

// Release ends what the holder does.
func (l *Lanes) Release(holder string) {
	l.mu.Lock()
	own := l.of[holder]
	l.mu.Unlock()
	<-own.taken
	l.leave(holder, own)
}

func (l *Lanes) leave(holder string, own *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(l.of, holder)
	}
}
