package runtime

import (
	"sync/atomic"
	"time"
)

// DefaultStall is how long one operation of the disk may take before the disk
// counts as stalled. It is far above what a busy disk takes, and a kernel gives a
// request up only after 30 s or more.
const DefaultStall = 10 * time.Second

// stall knows since when the writer has waited for the disk. A disk that hangs
// returns no error: whoever waits for it waits for as long as it likes.
type stall struct {
	limit time.Duration
	now   func() time.Duration // never goes back
	since atomic.Int64         // ns of now, and 1, when the operation under way began; 0: there is none
}

// begin returns the time, of now.
func (s *stall) begin() time.Duration {
	now := s.now()
	s.since.Store(int64(now) + 1)
	return now
}

func (s *stall) end() { s.since.Store(0) }

// stalled is how long the operation under way has taken, if that is more than the
// limit; else 0.
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
