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

// NewWaiter returns a Waiter for a number of bytes.
func NewWaiter(bytes int) *Waiter {
	w := &Waiter{ready: make(chan struct{})}
	w.missing.Store(int64(bytes))
	return w
}

// Ready returns a channel that is closed when enough bytes are readable, or a log has changed in
// another way.
func (w *Waiter) Ready() <-chan struct{} { return w.ready }

// Readable implements tail.Waiter.
func (w *Waiter) Readable(bytes int) {
	if w.missing.Add(-int64(bytes)) <= 0 {
		w.End()
	}
}

// End implements tail.Waiter.
func (w *Waiter) End() { w.once.Do(func() { close(w.ready) }) }
