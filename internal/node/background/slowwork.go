package background

import (
	"context"
	"sync"
	"time"
)

// SlowWork is work of the disk that holds up other logs: opening the files of one,
// or removing them. It is waited for as long as a disk takes that works; then it goes
// on by itself, so that a disk that hangs blocks neither other logs nor Close.
type SlowWork struct {
	limit   time.Duration
	closing context.Context // once it ends, nothing is waited for
	Running sync.WaitGroup
	// places are taken by what is done behind.
	places chan struct{}
}

// NewSlowWork waits for a piece of work up to limit, and for none once closing has ended.
// So many are done behind at once.
func NewSlowWork(limit time.Duration, closing context.Context, behind int) *SlowWork {
	return &SlowWork{limit: limit, closing: closing, places: make(chan struct{}, behind)}
}

// Behind does work that nobody waits for, some at a time.
func (s *SlowWork) Behind(work func()) {
	s.Running.Go(func() {
		s.places <- struct{}{}
		defer func() { <-s.places }()
		work()
	})
}

// Await runs work. It returns nil if work ends while it waits; otherwise work continues,
// and the channel is closed when it ends.
func (s *SlowWork) Await(work func()) (late <-chan struct{}) {
	done := make(chan struct{})
	s.Running.Go(func() {
		defer close(done)
		work()
	})
	limit := time.NewTimer(s.limit)
	defer limit.Stop()
	select {
	case <-done:
		return nil
	case <-limit.C:
	case <-s.closing.Done():
	}
	return done
}
