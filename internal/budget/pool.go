package budget

import (
	"container/list"
	"context"
	"sync"
)

// Pool bounds the bytes that things of one kind hold together. A caller that finds
// it exhausted waits, first come first served, or does without.
type Pool struct {
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

// NewPool makes a pool of so many bytes.
func NewPool(size int64) *Pool { return &Pool{size: size, free: size} }

// Size is how many bytes the pool has.
func (p *Pool) Size() int64 { return p.size }

// Acquire takes bytes out of the pool, waiting for them if it must. A request
// larger than the whole pool takes all of it.
func (p *Pool) Acquire(ctx context.Context, bytes int64) error {
	bytes = min(bytes, p.size)
	p.mu.Lock()
	if p.waiting.Len() == 0 && p.free >= bytes {
		p.free -= bytes
		p.mu.Unlock()
		return nil
	}
	a := &applicant{bytes: bytes, granted: make(chan struct{})}
	place := p.waiting.PushBack(a)
	p.mu.Unlock()

	select {
	case <-a.granted:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-a.granted:
		p.free += bytes
	default:
		p.waiting.Remove(place)
	}
	// Either way those behind may now have their turn.
	p.grant()
	return ctx.Err()
}

// TryAcquire takes bytes out of the pool if they are free and no caller waits.
func (p *Pool) TryAcquire(bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes > p.free || p.waiting.Len() > 0 {
		return false
	}
	p.free -= bytes
	return true
}

// Release gives back what Acquire took for the same number of bytes.
func (p *Pool) Release(bytes int64) {
	p.mu.Lock()
	p.free += min(bytes, p.size)
	if p.waiting.Len() > 0 {
		p.grant()
	}
	p.mu.Unlock()
}

// Waiting reports whether somebody waits.
func (p *Pool) Waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting.Len() > 0
}

// Used is how many bytes are taken.
func (p *Pool) Used() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size - p.free
}

func (p *Pool) grant() {
	for first := p.waiting.Front(); first != nil; first = p.waiting.Front() {
		a := first.Value.(*applicant)
		if a.bytes > p.free {
			return
		}
		p.free -= a.bytes
		p.waiting.Remove(first)
		close(a.granted)
	}
}
