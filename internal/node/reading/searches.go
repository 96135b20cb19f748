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

// searches are what the searches for checks share on a node: of each holder one runs at a time, of all
// holders as many as take a quarter of the memory for reads, and one that has lacked something continues
// where it was when its append is sent again.
type searches struct {
	lanes  *budget.Lanes
	places *budget.Turns

	mu      sync.Mutex
	unended map[sought]reached
}

// sought identifies a search. What it has seen does not change within the term of a leader, whoever asks.
type sought struct {
	log, term uint64
	check     [sha256.Size]byte
}

// reached is how far a search came: no record below to matches.
type reached struct {
	to   record.Offset
	left int // bytes that may still be read
}

// newSearches makes those of a node that has so many bytes for reads.
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

// ended keeps how far a search came that may continue, and forgets one that may not.
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
