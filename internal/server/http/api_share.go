package httpserver

import (
	"context"
	"net/http"

	"strandline.dev/internal/budget"
)

// share is the memory of one side of a call, from the node's memory for texts. It counts for the
// caller.
type share struct {
	of           *budget.Arriving
	whose        string
	taken, grown int64
}

// whose returns the key by which the memory of an admitted call is counted.
func (a *api) whose(admitted context.Context, q *http.Request) string {
	if a.callers == nil {
		return ""
	}
	return a.callers.Whose(admitted, addressOf(q))
}

// take releases all memory, and waits until it has acquired the given number of bytes. The error is
// that of ctx.
func (s *share) take(ctx context.Context, bytes int64) error {
	s.release()
	err := s.of.Acquire(ctx, s.whose, bytes)
	if err == nil {
		s.taken = bytes
	}
	return err
}

// grow acquires more bytes without waiting. It returns false if they are not available.
func (s *share) grow(bytes int64) bool {
	grown := s.of.Grow(s.whose, bytes)
	if grown {
		s.grown += bytes
	}
	return grown
}

func (s *share) bytes() int64 { return s.taken + s.grown }

// release releases all memory. It may be called again.
func (s *share) release() {
	s.of.Release(s.whose, s.taken)
	s.of.Shrink(s.whose, s.grown)
	s.taken, s.grown = 0, 0
}
