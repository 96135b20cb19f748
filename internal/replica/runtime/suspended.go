package runtime

import (
	"sync/atomic"
	"time"
)

// leastSuspension is the least that a clock has to gain to count: two clocks are not read at the same time.
const leastSuspension = 50 * time.Millisecond

// countSuspensions returns a function that returns how long the machine has been suspended since this
// call, by what another clock has gained on Go's, which stands still meanwhile. What was counted once
// stays: where the gain is only one of a wall clock that was set forward, what is known before it looks
// older than it is, and nothing ever looks younger.
func countSuspensions(gained func() time.Duration) func() time.Duration {
	before, counted := gained(), new(atomic.Int64)
	return func() time.Duration {
		now := int64(gained() - before)
		for {
			last := counted.Load()
			if now-last < int64(leastSuspension) {
				return time.Duration(last)
			}
			if counted.CompareAndSwap(last, now) {
				return time.Duration(now)
			}
		}
	}
}

// Elapsed is the time since this replica began, in ms. It counts while the machine is suspended, which
// the clock for elections and leases does not.
func (l *loop) Elapsed() int64 {
	return time.Since(l.started).Milliseconds() + l.suspended().Milliseconds()
}
