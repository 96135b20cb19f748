package record

import "sync"

// scratch is memory for the time of one call, to inflate or to compress into.
// A pooled one is never larger than scratchKept.
type scratch struct{ bytes []byte }

// scratchKept bounds what a scratch keeps between calls, so that one large
// batch does not hold its memory for ever.
const scratchKept = 1 << 20

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func takeScratch() *scratch { return scratches.Get().(*scratch) }

func (s *scratch) giveBack() {
	s.trim()
	scratches.Put(s)
}

func (s *scratch) trim() {
	if cap(s.bytes) > scratchKept {
		s.bytes = nil
	}
}
