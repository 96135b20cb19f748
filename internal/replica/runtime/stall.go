package runtime

import (
	"sync/atomic"
	"time"
)

// DefaultStall is how long one disk operation may take before the disk counts as stalled. It is
// far longer than on a busy disk, and a kernel gives up a request only after 30 s or more.
const DefaultStall = 10 * time.Second

// stall records since when the writer has waited for the disk. A disk that hangs returns no
// error, and the wait has no limit.
type stall struct {
	limit time.Duration
	now   func() time.Duration // never decreases
	since atomic.Int64         // now in nanoseconds, plus 1, when the current operation began; 0: there is none
}

// begin records the start of an operation and returns now.
func (s *stall) begin() time.Duration {
	now := s.now()
	s.since.Store(int64(now) + 1)
	return now
}

func (s *stall) end() { s.since.Store(0) }

// stalled returns how long the current operation has taken, if that is more than the limit, and 0
// otherwise.
func (s *stall) stalled() time.Duration {
	since := s.since.Load()
	if since == 0 {
		return 0
	}
	if took := s.now() + 1 - time.Duration(since); took >= s.limit {
		return took
	}
	return 0
}
