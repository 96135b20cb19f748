package node

import (
	"context"
	"sync"
)

// tasks are the goroutines of a node that run until it is closed.
type tasks struct {
	ctx     context.Context // ends with stop
	cancel  context.CancelFunc
	mu      sync.Mutex // running.Add against running.Wait
	stopped bool
	running sync.WaitGroup
}

func newTasks() *tasks {
	t := &tasks{}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// run lets f run until stop, which waits for it. It reports false, and runs
// nothing, after stop.
func (t *tasks) run(f func(context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.running.Go(func() { f(t.ctx) })
	}
	return !t.stopped
}

func (t *tasks) stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.cancel()
	t.running.Wait()
}
