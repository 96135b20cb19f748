// Package background is what a node does beside its calls: goroutines that all end when
// it is closed (Tasks), looks at what is due, at intervals and when something has
// changed (Looks, Bell), and work of the disk that is left behind where the disk hangs
// (SlowWork).
package background

import (
	"context"
	"sync"
)

// Tasks are the goroutines of a node that run until it is closed.
type Tasks struct {
	Context context.Context // ends with stop
	cancel  context.CancelFunc
	mu      sync.Mutex // running.Add against running.Wait
	stopped bool
	running sync.WaitGroup
}

// NewTasks returns tasks of which none runs yet.
func NewTasks() *Tasks {
	t := &Tasks{}
	t.Context, t.cancel = context.WithCancel(context.Background())
	return t
}

// Run lets f run until stop, which waits for it. It reports false, and runs
// nothing, after stop.
func (t *Tasks) Run(f func(context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.running.Go(func() { f(t.Context) })
	}
	return !t.stopped
}

// Stop ends the context of all tasks, and returns when they have returned.
func (t *Tasks) Stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.cancel()
	t.running.Wait()
}
