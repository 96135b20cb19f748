package background

import (
	"context"
	"sync"
	"time"
)

// SlowWork runs disk work that blocks other logs, such as opening or removing the files of a log.
// The caller waits as long as a healthy disk takes. Then the work continues in the background, so
// that a hanging disk blocks neither other logs nor Close.
type SlowWork struct {
	limit   time.Duration
	closing context.Context // once it ends, nothing is waited for
	Running sync.WaitGroup
	// places limits the work that continues in the background.
	places chan struct{}
}

// NewSlowWork returns a SlowWork that waits up to limit for a piece of work, and does not wait
// after closing has ended. So many are done behind at once.
func NewSlowWork(limit time.Duration, closing context.Context, behind int) *SlowWork {
	return &SlowWork{limit: limit, closing: closing, places: make(chan struct{}, behind)}
}

// Behind runs work in the background, with a limit on concurrent pieces.
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
