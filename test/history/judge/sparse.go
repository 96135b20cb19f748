package judge

import (
	"iter"
	"maps"
	"slices"

	"strandline.dev/test/history"
)

// sparse is an array by a 64-bit number, of which runs are used here and there.
// A claimed number, however high, costs one chunk.
type sparse[T any] struct {
	chunks map[int64]*[chunk]T
	newest int64 // number of the chunk used last, and
	cached *[chunk]T
}

const chunk = 256

// at returns the element i, made if need be.
func (s *sparse[T]) at(i int64) *T {
	n := i / chunk
	if s.cached == nil || s.newest != n {
		c := s.chunks[n]
		if c == nil {
			if s.chunks == nil {
				s.chunks = map[int64]*[chunk]T{}
			}
			c = &[chunk]T{}
			s.chunks[n] = c
		}
		s.newest, s.cached = n, c
	}
	return &s.cached[i%chunk]
}

// all yields every element of the chunks in use, in order.
func (s *sparse[T]) all() iter.Seq2[int64, *T] {
	return func(yield func(int64, *T) bool) {
		for _, n := range slices.Sorted(maps.Keys(s.chunks)) {
			for i := range s.chunks[n] {
				if !yield(n*chunk+int64(i), &s.chunks[n][i]) {
					return
				}
			}
		}
	}
}

// mark is a bound and the line that set it.
type mark struct {
	value int64
	at    history.Place
}

// raise moves a mark up, never down.
func (m *mark) raise(value int64, at history.Place) {
	if value > m.value {
		*m = mark{value, at}
	}
}
