package fetchsession

import (
	"container/list"
	"sync"
	"time"

	"strandline.dev/internal/budget"
)

// idleTime is how long a session is unused before it may be ended to make room for another.
const idleTime = 2 * time.Minute

// Sessions bounds the memory of all sessions. A client whose session was ended, or gets none, lists
// all that it wants in each request.
type Sessions struct {
	memory *budget.Shares

	mu   sync.Mutex
	held map[string]int64 // bytes by holder; what is 0 is not there
	idle list.List        // of *Session, the longest unused first
}

// place is what Sessions keeps of a session. Sessions.mu guards it.
type place struct {
	holder  string
	counted int64
	since   time.Time     // of idle
	idle    *list.Element // nil while a request is in progress
	ended   bool
}

// NewSessions returns sessions that share a part of the node's memory.
func NewSessions(memory *budget.Shares) *Sessions {
	return &Sessions{memory: memory, held: map[string]int64{}}
}

// Begin begins a session, which is in use. It returns nil if its holder, a principal or an address,
// would have more memory than is left for all others.
func (s *Sessions) Begin(id int32, byID bool, all []Partition, holder string, now time.Time) *Session {
	bytes := BytesOf(all)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.room(holder, bytes, now) {
		return nil
	}
	x := newSession(id, byID, all)
	x.holder = holder
	s.count(x, x.bytes)
	return x
}

// Apply adds, changes and removes partitions of a session. It reports whether there is room for
// them; where there is none, the session has ended, and has no partitions.
func (s *Sessions) Apply(x *Session, wanted []Partition, forgotten []Key, now time.Time) bool {
	after, _ := x.after(wanted)
	s.mu.Lock()
	defer s.mu.Unlock()
	if after > x.counted && !s.room(x.holder, after-x.counted, now) {
		s.end(x)
		return false
	}
	x.apply(wanted, forgotten)
	s.count(x, x.bytes)
	return true
}

// Use begins the use of a session by a request. It reports false if the session has ended.
func (s *Sessions) Use(x *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.ended {
		return false
	}
	if x.place.idle != nil {
		s.idle.Remove(x.place.idle)
		x.place.idle = nil
	}
	return true
}

// Leave ends the use of a session by a request.
func (s *Sessions) Leave(x *Session, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !x.ended && x.place.idle == nil {
		x.since, x.place.idle = now, s.idle.PushBack(x)
	}
}

// End ends a session. It may have ended.
func (s *Sessions) End(x *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(x)
}

// room reports whether a holder may have more memory. It ends sessions that were not used for
// idleTime, the longest unused first, if that is needed.
func (s *Sessions) room(holder string, more int64, now time.Time) bool {
	for s.memory.Crowds(s.held[holder] + more) {
		oldest := s.idle.Front()
		if oldest == nil || now.Sub(oldest.Value.(*Session).since) < idleTime {
			return false
		}
		s.end(oldest.Value.(*Session))
	}
	return true
}

func (s *Sessions) end(x *Session) {
	if x.ended {
		return
	}
	x.ended = true
	s.count(x, 0)
	if x.place.idle != nil {
		s.idle.Remove(x.place.idle)
		x.place.idle = nil
	}
	x.inOrder, x.known = nil, nil // of those in use, only the request itself ends one
}

func (s *Sessions) count(x *Session, bytes int64) {
	s.memory.Changed(x.counted, bytes)
	if s.held[x.holder] += bytes - x.counted; s.held[x.holder] == 0 {
		delete(s.held, x.holder)
	}
	x.counted = bytes
}
