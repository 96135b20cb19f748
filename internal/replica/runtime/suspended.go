package runtime

import (
	"sync/atomic"
	"time"
)

// leastSuspension is the minimum gain of a clock that counts, since two clocks are not read at
// the same time.
const leastSuspension = 50 * time.Millisecond

// countSuspensions returns a function that returns how long the machine has been suspended since
// this call. gained returns how much another clock has gained on Go's, which does not advance
// during a suspension. The count never decreases: if the gain is only that of a wall clock that
// was set forward, knowledge from before looks older than it is, but nothing ever looks more
// recent.
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

// Elapsed returns the time since this replica started in milliseconds, including suspensions of
// the machine, which the clock for elections and leases does not include.
func (l *loop) Elapsed() int64 {
	return time.Since(l.started).Milliseconds() + l.suspended().Milliseconds()
}
