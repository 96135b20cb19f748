package node

import (
	"context"
	"sync"
	"time"
)

// slowWork is work of the disk that holds up other logs: opening the files of one,
// or removing them. It is waited for as long as a disk takes that works; then it goes
// on by itself, so that a disk that hangs blocks neither other logs nor Close.
type slowWork struct {
	limit   time.Duration
	closing context.Context // once it ends, nothing is waited for
	running sync.WaitGroup
	// places are taken by what is done behind.
	places chan struct{}
}

// behind does work that nobody waits for, some at a time.
func (s *slowWork) behind(work func()) {
	s.running.Go(func() {
		s.places <- struct{}{}
		defer func() { <-s.places }()
		work()
	})
}

// await does work. It returns nil once that is done; otherwise work goes on, and the
// channel is closed when it ends.
func (s *slowWork) await(work func()) (late <-chan struct{}) {
	done := make(chan struct{})
	s.running.Go(func() {
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
