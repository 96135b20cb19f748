package rpc

import (
	"container/list"
	"context"
	"sync"
)

// Budget bounds the bytes of requests that are being worked on. Who finds it
// exhausted waits, first come first served, and meanwhile does not read on.
type Budget struct {
	size int64

	mu   sync.Mutex
	free int64 // 0 to size; while someone waits, less than the first one asks for
	// waiting holds *applicant, in order of arrival.
	waiting list.List
}

type applicant struct {
	bytes   int64
	granted chan struct{}
}

// NewBudget makes a budget of so many bytes.
func NewBudget(size int64) *Budget { return &Budget{size: size, free: size} }

// Acquire takes bytes out of the budget, waiting for them if it must. A request
// larger than the whole budget takes all of it.
func (b *Budget) Acquire(ctx context.Context, bytes int64) error {
	bytes = min(bytes, b.size)
	b.mu.Lock()
	if b.waiting.Len() == 0 && b.free >= bytes {
		b.free -= bytes
		b.mu.Unlock()
		return nil
	}
	a := &applicant{bytes: bytes, granted: make(chan struct{})}
	place := b.waiting.PushBack(a)
	b.mu.Unlock()

	select {
	case <-a.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-a.granted:
		b.free += bytes
	default:
		b.waiting.Remove(place)
	}
	// Either way those behind may now have their turn.
	b.grant()
	return ctx.Err()
}

// TryAcquire takes bytes out of the budget if they are there and nobody waits.
func (b *Budget) TryAcquire(bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if bytes > b.free || b.waiting.Len() > 0 {
		return false
	}
	b.free -= bytes
	return true
}

// Release gives back what Acquire took for the same number of bytes.
func (b *Budget) Release(bytes int64) {
	b.mu.Lock()
	b.free += min(bytes, b.size)
	if b.waiting.Len() > 0 {
		b.grant()
	}
	b.mu.Unlock()
}

// Used is how many bytes are taken.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size - b.free
}

func (b *Budget) grant() {
	for first := b.waiting.Front(); first != nil; first = b.waiting.Front() {
		a := first.Value.(*applicant)
		if a.bytes > b.free {
			return
		}
		b.free -= a.bytes
		b.waiting.Remove(first)
		close(a.granted)
	}
}
