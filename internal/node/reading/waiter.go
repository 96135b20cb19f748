package reading

import (
	"sync"
	"sync/atomic"
)

// Waiter waits until enough has become readable in several logs together.
type Waiter struct {
	missing atomic.Int64 // bytes
	once    sync.Once
	ready   chan struct{}
}

// NewWaiter returns one that waits for so many bytes.
func NewWaiter(bytes int) *Waiter {
	w := &Waiter{ready: make(chan struct{})}
	w.missing.Store(int64(bytes))
	return w
}

// Ready is closed when there is enough, or a log has changed in another way.
func (w *Waiter) Ready() <-chan struct{} { return w.ready }

// Readable implements tail.Waiter.
func (w *Waiter) Readable(bytes int) {
	if w.missing.Add(-int64(bytes)) <= 0 {
		w.End()
	}
}

// End implements tail.Waiter.
func (w *Waiter) End() { w.once.Do(func() { close(w.ready) }) }
