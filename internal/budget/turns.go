package budget

import (
	"container/list"
	"context"
	"sync"
)

// Turns bound the number of costly operations in progress. Waiting holders take turns: a holder
// with many requests delays each other holder by at most one turn.
type Turns struct {
	mu   sync.Mutex
	free int // 0 while somebody waits
	// waiting has the holders of whom something waits; next are they in the order in which
	// they are served. A turn is given, and given up, in the same time however many wait.
	waiting map[string]*line
	next    list.List // of *line
}

// line is what waits of a holder, in its order.
type line struct {
	holder  string
	granted list.List // of chan struct{}, which are closed
	place   *list.Element
}

// NewTurns makes so many turns.
func NewTurns(n int) *Turns { return &Turns{free: n, waiting: map[string]*line{}} }

// Acquire waits for a turn of a holder. The error is that of ctx.
func (t *Turns) Acquire(ctx context.Context, holder string) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	granted := make(chan struct{})
	l := t.waiting[holder]
	if l == nil {
		l = &line{holder: holder}
		l.place = t.next.PushBack(l)
		t.waiting[holder] = l
	}
	waits := l.granted.PushBack(granted)
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
		t.leave(l, waits)
	}
	return ctx.Err()
}

// leave removes one that does not wait any more. The caller holds mu.
func (t *Turns) leave(l *line, waits *list.Element) {
	if l.granted.Remove(waits); l.granted.Len() == 0 {
		delete(t.waiting, l.holder)
		t.next.Remove(l.place)
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
	first := t.next.Front()
	if first == nil {
		t.free++
		return
	}
	l := first.Value.(*line)
	waits := l.granted.Front()
	t.next.MoveToBack(first)
	t.leave(l, waits)
	close(waits.Value.(chan struct{}))
}

// Waiting reports whether somebody waits.
func (t *Turns) Waiting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next.Len() > 0
}

// Free returns the number of free turns.
func (t *Turns) Free() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.free
}
