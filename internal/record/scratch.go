package record

import "sync"

// scratch is memory for the duration of one call, to decompress or compress into. A pooled one is
// never larger than scratchKept.
type scratch struct{ bytes []byte }

// scratchKept bounds the memory that a scratch keeps between calls, so that one large batch does
// not occupy memory permanently.
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
