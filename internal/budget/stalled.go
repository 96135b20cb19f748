package budget

import (
	"container/list"
	"sync"
	"time"
)

// Stalled counts the memory of clients that have not taken their data in time. No caller waits for room in it:
// where there is none, those that have taken nothing for longest are ended. So what the other
// clients have for themselves does not depend on how many take nothing.
type Stalled struct {
	size int64

	mu   sync.Mutex
	used int64
	// clients holds *Stall, the first one has been in it for longest.
	clients list.List
}

// Stall is what one client holds.
type Stall struct {
	of    *Stalled
	bytes int64
	since time.Time
	end   func()
	place *list.Element // nil: it is not counted any more
}

// stallLeast is how long a client may take nothing before it is ended for others. It is longer than
// a client pauses that collects its garbage.
const stallLeast = time.Second

// NewStalled makes a part of so many bytes.
func NewStalled(size int64) *Stalled { return &Stalled{size: size} }

// Enter counts so many bytes of a client until Leave. Where there is no room it calls end of those that
// have been in longest, each on a goroutine of its own, and counts them no more. It returns nil if
// none of them has been in for stallLeast: the caller counts its bytes elsewhere and tries again later.
func (s *Stalled) Enter(bytes int64, end func()) *Stall {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	bytes = min(bytes, s.size)
	for s.used+bytes > s.size {
		first := s.clients.Front().Value.(*Stall)
		if now.Sub(first.since) < stallLeast {
			return nil
		}
		first.leave()
		go first.end()
	}
	in := &Stall{of: s, bytes: bytes, since: now, end: end}
	in.place = s.clients.PushBack(in)
	s.used += bytes
	return in
}

// Leave ends what Enter began. It may be called again, and after end.
func (c *Stall) Leave() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.leave()
}

// leave is Leave for a caller that holds mu.
func (c *Stall) leave() {
	if c.place != nil {
		c.of.clients.Remove(c.place)
		c.of.used -= c.bytes
		c.place = nil
	}
}

// Used is what is counted, Size how much that may be.
func (s *Stalled) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Size is how much may be counted.
func (s *Stalled) Size() int64 { return s.size }
