package core

// A leader whose disk is much slower than those of its followers commits by
// their acknowledgements, long before its own write is done. It goes on so for
// slowTicks of the last slowWindow and then hands over.
const (
	slowTicks  = 40
	slowWindow = 80 // 4 s
	// slowMillis that a write of the leader has been under way behind the
	// commit index make a tick count.
	slowMillis = 20
)

// slowness counts ticks in which this leader's disk was behind its followers'.
type slowness struct {
	behind int64 // when commit was first seen ahead of this disk; 0: it is not
	ticks  uint64
	slow   int // bits set in history
	recent [slowWindow]bool
}

func (s *slowness) tick(now int64, commit, durable uint64) (handOver bool) {
	switch {
	case commit <= durable:
		s.behind = 0
	case s.behind == 0:
		s.behind = now
	}
	slow := s.behind != 0 && now-s.behind >= slowMillis
	at := &s.recent[s.ticks%slowWindow]
	s.ticks++
	if *at {
		s.slow--
	}
	if *at = slow; slow {
		s.slow++
	}
	return s.slow >= slowTicks
}
