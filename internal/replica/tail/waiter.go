package tail

import "strandline.dev/internal/record"

// Waiter waits for records of several tails together. Its methods are called under their
// locks, and must not block.
type Waiter interface {
	// Readable counts so many bytes of entries that have become readable.
	Readable(bytes int)
	// End ends the wait: a tail is not what it was taken for, its start has moved, or it
	// has failed.
	End()
}

// Await has w wait for what becomes readable beyond the bounds given, until Leave.
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

// Leave ends what Await began.
func (t *Tail) Leave(w Waiter) {
	t.mu.Lock()
	delete(t.waiters, w)
	t.mu.Unlock()
}

// countReadable counts the records up to end for those who wait. The caller holds mu.
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

// endWaits ends the wait of all. The caller holds mu.
func (t *Tail) endWaits() {
	for w := range t.waiters {
		w.End()
	}
}
