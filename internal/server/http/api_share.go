package httpserver

import (
	"context"
	"net/http"

	"strandline.dev/internal/budget"
)

// share is what one side of a call holds of the node's memory for texts, which counts as its caller's.
type share struct {
	of           *budget.Arriving
	whose        string
	taken, grown int64
}

// whose names the caller of an admitted call by whom what it holds is counted.
func (a *api) whose(admitted context.Context, q *http.Request) string {
	if a.callers == nil {
		return ""
	}
	return a.callers.Whose(admitted, addressOf(q))
}

// take waits for so many bytes, with nothing held. The error is that of ctx.
func (s *share) take(ctx context.Context, bytes int64) error {
	s.release()
	err := s.of.Acquire(ctx, s.whose, bytes)
	if err == nil {
		s.taken = bytes
	}
	return err
}

// grow takes so many bytes more. It reports false if they are not there.
func (s *share) grow(bytes int64) bool {
	grown := s.of.Grow(s.whose, bytes)
	if grown {
		s.grown += bytes
	}
	return grown
}

func (s *share) bytes() int64 { return s.taken + s.grown }

// release gives all back. It may be called again.
func (s *share) release() {
	s.of.Release(s.whose, s.taken)
	s.of.Shrink(s.whose, s.grown)
	s.taken, s.grown = 0, 0
}
