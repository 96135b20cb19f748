package budget

import (
	"context"
	"slices"
	"sync"
)

// Arriving bounds what requests may take that have been announced and are being received, so
// that an announcement alone takes nothing of what finished requests need. A holder may have as
// much as is left for all others together: one has half, two a third each. Its further
// requests wait until earlier ones have arrived; what waits is served holder by holder.
//
// What fits passes what waits for more, but no request is passed by more than the whole: then those
// behind it wait, too, if nothing else of its holder is arriving. So one that needs much is not kept
// waiting by many that need little, and a holder that has much keeps nobody else waiting.
//
// A request of more than a quarter of the whole is not counted. There is one at a time.
//
// Texts over HTTP are divided in the same way.
type Arriving struct {
	size int64

	mu    sync.Mutex
	used  int64            // at most size
	held  map[string]int64 // of used, by holder; what is 0 is not there
	large bool             // one that is not counted is arriving
	// waiting has the holders of whom something waits; next are they in the order in which
	// they are served.
	waiting map[string][]*arrival
	next    []string
}

// arrival is a request that waits.
type arrival struct {
	bytes   int64
	granted chan struct{}
	// passed is how much of others was let in before it, since it was the first of its holder.
	passed int64
}

// NewArriving makes a part of so many bytes.
func NewArriving(size int64) *Arriving {
	return &Arriving{size: size, held: map[string]int64{}, waiting: map[string][]*arrival{}}
}

// Acquire waits until a request of a holder may be received. The error is that of ctx.
func (a *Arriving) Acquire(ctx context.Context, holder string, bytes int64) error {
	a.mu.Lock()
	if len(a.waiting[holder]) == 0 && a.fits(holder, bytes) && (a.isLarge(bytes) || a.first() == nil) {
		a.take(holder, bytes)
		a.mu.Unlock()
		return nil
	}
	w := &arrival{bytes: bytes, granted: make(chan struct{})}
	if len(a.waiting[holder]) == 0 {
		a.next = append(a.next, holder)
	}
	a.waiting[holder] = append(a.waiting[holder], w)
	a.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-w.granted:
		a.give(holder, bytes)
	default:
		a.leave(holder, w)
	}
	a.grant() // those behind may have their turn
	return ctx.Err()
}

// Release ends what Acquire began for the same holder and number of bytes.
func (a *Arriving) Release(holder string, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.give(holder, bytes)
	a.grant()
}

// Grow counts so many bytes more for a holder that has some, until Shrink. It reports false if they do not fit now.
func (a *Arriving) Grow(holder string, bytes int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first() != nil || !a.leaves(holder, bytes) {
		return false
	}
	a.count(holder, bytes)
	return true
}

// Shrink ends what Grow began, once or several times.
func (a *Arriving) Shrink(holder string, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.discount(holder, bytes)
	a.grant()
}

// Waiting reports whether a request waits.
func (a *Arriving) Waiting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.next) > 0
}

// Used is what counted requests take, Size how much they may.
func (a *Arriving) Used() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// Size is what all requests may take that are counted.
func (a *Arriving) Size() int64 { return a.size }

func (a *Arriving) isLarge(bytes int64) bool { return bytes > a.size/4 }

// fits reports whether a request may be received now. The caller holds mu.
func (a *Arriving) fits(holder string, bytes int64) bool {
	if a.isLarge(bytes) {
		return !a.large
	}
	return a.leaves(holder, bytes)
}

// leaves reports whether a holder would leave as much to others as it would have. The caller holds mu.
func (a *Arriving) leaves(holder string, bytes int64) bool {
	return a.held[holder]+bytes <= a.size-a.used-bytes
}

// take counts a request, give ends that. The caller holds mu.
func (a *Arriving) take(holder string, bytes int64) {
	if a.isLarge(bytes) {
		a.large = true
		return
	}
	a.count(holder, bytes)
}

// count is take for what is counted, discount ends that. The caller holds mu.
func (a *Arriving) count(holder string, bytes int64) {
	a.used += bytes
	a.held[holder] += bytes
	for _, other := range a.next {
		if other != holder {
			a.waiting[other][0].passed += bytes
		}
	}
}

// first returns the request that no other may pass any more, or nil. The caller holds mu.
func (a *Arriving) first() *arrival {
	for _, holder := range a.next {
		if w := a.waiting[holder][0]; w.passed >= a.size && a.held[holder] == 0 && !a.isLarge(w.bytes) {
			return w
		}
	}
	return nil
}

func (a *Arriving) give(holder string, bytes int64) {
	if a.isLarge(bytes) {
		a.large = false
		return
	}
	a.discount(holder, bytes)
}

func (a *Arriving) discount(holder string, bytes int64) {
	a.used -= bytes
	if a.held[holder] -= bytes; a.held[holder] == 0 {
		delete(a.held, holder)
	}
}

// grant lets those in whose turn has come, one of each holder and then again. The caller holds mu.
func (a *Arriving) grant() {
	first := a.first()
	for again := len(a.next) > 0; again; {
		again = false
		for _, holder := range slices.Clone(a.next) {
			w := a.waiting[holder][0]
			if first != nil && first != w && !a.isLarge(w.bytes) || !a.fits(holder, w.bytes) {
				continue
			}
			a.take(holder, w.bytes)
			a.leave(holder, w)
			first = a.first()                              // only what was let in changes it: a thousand may wait
			if i := slices.Index(a.next, holder); i >= 0 { // more of it waits, behind the others
				a.next = append(slices.Delete(a.next, i, i+1), holder)
			}
			close(w.granted)
			again = true
		}
	}
}

// leave removes one that does not wait any more. The caller holds mu.
func (a *Arriving) leave(holder string, w *arrival) {
	left := slices.DeleteFunc(a.waiting[holder], func(other *arrival) bool { return other == w })
	if a.waiting[holder] = left; len(left) == 0 {
		delete(a.waiting, holder)
		a.next = slices.DeleteFunc(a.next, func(h string) bool { return h == holder })
	}
}
