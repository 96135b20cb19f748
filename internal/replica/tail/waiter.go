package tail

import "strandline.dev/internal/record"

// Waiter waits for records of several tails at once. Its methods are called with the locks of the
// tails held, and must not block.
type Waiter interface {
	// Readable adds the bytes of entries that have become readable.
	Readable(bytes int)
	// End ends the wait, because the bounds of a tail are not those given, its start has moved, or
	// it has failed.
	End()
}

// Await makes w wait for records beyond the given bounds, until Leave.
func (t *Tail) Await(w Waiter, start, end record.Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil || t.start != start || t.end != end {
		w.End()
		return
	}
	if t.waiters == nil {
		t.waiters = map[Waiter]struct{}{}
	}
	t.waiters[w] = struct{}{}
}

// Leave undoes Await.
func (t *Tail) Leave(w Waiter) {
	t.mu.Lock()
	delete(t.waiters, w)
	t.mu.Unlock()
}

// countReadable counts the records up to end for all waiters. The caller holds mu.
func (t *Tail) countReadable(end record.Offset) {
	if len(t.waiters) == 0 {
		return
	}
	bytes := 0
	for i := len(t.entries) - 1; i >= 0 && t.entries[i].End > t.end; i-- {
		if t.entries[i].End <= end && t.entries[i].Count > 0 {
			bytes += len(t.entries[i].Data)
		}
	}
	for w := range t.waiters {
		w.Readable(bytes)
	}
}

// endWaits ends the wait of all waiters. The caller holds mu.
func (t *Tail) endWaits() {
	for w := range t.waiters {
		w.End()
	}
}
