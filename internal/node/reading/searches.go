package reading

import (
	"crypto/sha256"
	"sync"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// maxUnended bounds the searches of a node that may be continued. With one more, all begin anew.
const maxUnended = 1024

// searches are the searches for checks on a node. Each holder runs one at a time, and all holders
// together as many as use a quarter of the memory for reads. A search that lacked time or memory
// continues where it stopped when its append is sent again.
type searches struct {
	lanes  *budget.Lanes
	places *budget.Turns

	mu      sync.Mutex
	unended map[sought]reached
}

// sought identifies a search. Its progress is the same for every caller within the term of a
// leader.
type sought struct {
	log, term uint64
	check     [sha256.Size]byte
}

// reached is how far a search came: no record below to matches.
type reached struct {
	to   record.Offset
	left int // bytes that may still be read
}

// newSearches returns the searches of a node with the given memory for reads.
func newSearches(reads int64) *searches {
	places := max(1, int(reads/4/(lookRoom+lookInflated)))
	return &searches{lanes: budget.NewLanes(), places: budget.NewTurns(places), unended: map[sought]reached{}}
}

// resume returns where a search begins.
func (s *searches) resume(q sought, since record.Offset) reached {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.unended[q]; ok {
		return r
	}
	return reached{to: since, left: maxLookBytes}
}

// ended stores the progress of a search that may continue, and removes one that is complete.
func (s *searches) ended(q sought, c *sequence.Check, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.Search.Lacked == "":
		delete(s.unended, q)
		return
	case c.Search.To <= c.Since:
		return
	case len(s.unended) >= maxUnended:
		clear(s.unended)
	}
	s.unended[q] = reached{to: c.Search.To, left: left}
}
