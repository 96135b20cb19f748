package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Damage in sealed segments, whose entries are all committed, endangers no vote
// and no acknowledgement. So the replica goes on: it votes, leads, appends and
// serves what is whole, while the damaged segments are laid out anew with entries
// of other replicas, one after the other. Only reads of what is damaged are sent
// elsewhere meanwhile. All other damage takes the replica out of service, see
// takeOut.

// repairs are those of one log that runs.
type repairs struct {
	mu      sync.Mutex
	waiting []damagedSegment // the first is under repair
	closed  bool
	cancel  context.CancelFunc // of the goroutine that repairs; nil: there is none
	done    chan struct{}      // closed when it has ended

	begun atomic.Bool // one was, since the log was opened
	// text says how the repair goes; nil while there is none.
	text atomic.Pointer[string]
}

type damagedSegment struct {
	file  string
	cause error
}

// repairsMost bounds those that wait. More will be found again.
const repairsMost = 1024

// uncommittedTime is how long a repair waits for entries to be known as committed.
const uncommittedTime = 2 * time.Second

// add notes a damaged segment. begin, if not nil, has to be run by a goroutine.
func (r *repairs) add(parent context.Context, d damagedSegment, work func(context.Context)) (begin func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := slices.ContainsFunc(r.waiting, func(w damagedSegment) bool { return w.file == d.file })
	if known || r.closed || len(r.waiting) == repairsMost {
		return nil
	}
	r.waiting = append(r.waiting, d)
	if r.cancel != nil {
		return nil
	}
	text := fmt.Sprint(d.cause)
	r.text.Store(&text)
	r.begun.Store(true)
	ctx, cancel := context.WithCancel(parent)
	done := make(chan struct{})
	r.cancel, r.done = cancel, done
	return func() {
		defer close(done)
		defer cancel()
		work(ctx)
	}
}

// next returns the segment to be repaired now; false ends the goroutine.
func (r *repairs) next() (damagedSegment, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 || r.closed {
		r.waiting, r.cancel = nil, nil
		r.text.Store(nil)
		return damagedSegment{}, false
	}
	return r.waiting[0], true
}

// finished takes the first away.
func (r *repairs) finished() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.Delete(r.waiting, 0, 1)
}

// stop ends the goroutine and waits for it; none begins again.
func (r *repairs) stop() {
	r.mu.Lock()
	r.closed = true
	cancel, done := r.cancel, r.done
	r.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
}

// underway reports whether a segment is under repair.
func (r *repairs) underway() bool { return r.text.Load() != nil }

// problem says what is damaged and how the repair goes; "" if nothing is.
func (r *repairs) problem() string {
	if text := r.text.Load(); text != nil {
		return *text
	}
	return ""
}

// stopped is called where the goroutine cannot be started any more.
func (r *repairs) stopped() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.cancel()
	close(r.done)
}
