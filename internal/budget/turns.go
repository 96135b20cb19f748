package budget

import (
	"context"
	"slices"
	"sync"
)

// Turns bound how many do something costly at a time. Who waits is served holder by holder,
// so that one who asks for many turns delays each of the others by one turn at most.
type Turns struct {
	mu   sync.Mutex
	free int // 0 while somebody waits
	// waiting has the holders of whom something waits; next are they in the order in which
	// they are served.
	waiting map[string][]chan struct{}
	next    []string
}

// NewTurns makes so many turns.
func NewTurns(n int) *Turns { return &Turns{free: n, waiting: map[string][]chan struct{}{}} }

// Acquire waits for a turn of a holder. The error is that of ctx.
func (t *Turns) Acquire(ctx context.Context, holder string) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	granted := make(chan struct{})
	if len(t.waiting[holder]) == 0 {
		t.next = append(t.next, holder)
	}
	t.waiting[holder] = append(t.waiting[holder], granted)
	t.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-granted:
		t.release()
	default:
		t.leave(holder, granted)
	}
	return ctx.Err()
}

// leave removes one that does not wait any more. The caller holds mu.
func (t *Turns) leave(holder string, granted chan struct{}) {
	left := slices.DeleteFunc(t.waiting[holder], func(c chan struct{}) bool { return c == granted })
	if t.waiting[holder] = left; len(left) == 0 {
		delete(t.waiting, holder)
		t.next = slices.DeleteFunc(t.next, func(h string) bool { return h == holder })
	}
}

// Release ends a turn.
func (t *Turns) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release()
}

// release gives a turn to the holder that is next. The caller holds mu.
func (t *Turns) release() {
	if len(t.next) == 0 {
		t.free++
		return
	}
	holder := t.next[0]
	first := t.waiting[holder][0]
	t.next = append(t.next[1:], holder)
	t.leave(holder, first)
	close(first)
}

// Waiting reports whether somebody waits.
func (t *Turns) Waiting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.next) > 0
}

// Free is how many turns nobody has.
func (t *Turns) Free() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.free
}
