package background

import "time"

// Backoff spaces attempts that may be needed again and again: the pause after the first is
// LookEvery, and each other is twice the one before, up to a limit.
type Backoff struct {
	pause time.Duration
	next  time.Time
}

// Due reports whether the pause after the newest attempt has ended.
func (b *Backoff) Due(now time.Time) bool { return !now.Before(b.next) }

// Tried begins the pause after an attempt, and reports whether that was the first.
func (b *Backoff) Tried(now time.Time, longest time.Duration) (first bool) {
	first = b.pause == 0
	b.pause = min(max(2*b.pause, LookEvery), longest)
	b.next = now.Add(b.pause)
	return first
}
