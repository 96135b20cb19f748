// Package background runs the work of a node outside its calls: goroutines that end when the node
// is closed (Tasks), checks for due work at intervals and after changes (Looks, Bell), and disk
// work that continues in the background if the disk hangs (SlowWork).
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

// NewTasks returns an empty Tasks.
func NewTasks() *Tasks {
	t := &Tasks{}
	t.Context, t.cancel = context.WithCancel(context.Background())
	return t
}

// Run starts f in a goroutine; Stop ends its context and waits for it. After Stop, Run does nothing
// and returns false.
func (t *Tasks) Run(f func(context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.running.Go(func() { f(t.Context) })
	}
	return !t.stopped
}

// Stop ends the context of all tasks and waits until they have returned.
func (t *Tasks) Stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.cancel()
	t.running.Wait()
}
