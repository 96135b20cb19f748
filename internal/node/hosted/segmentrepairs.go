package hosted

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Damage in sealed segments, whose entries are all committed, endangers no vote and no
// acknowledgement. So the replica continues to vote, lead, append and serve intact entries, while
// the damaged segments are rewritten one after the other with entries of other replicas. Only reads
// of damaged entries are sent elsewhere meanwhile. All other damage takes the replica out of
// service, see takeOut.

// repairs are those of one log that runs.
type repairs struct {
	mu      sync.Mutex
	waiting []DamagedSegment // the first is under repair
	closed  bool
	cancel  context.CancelFunc // of the goroutine that repairs; nil: there is none
	done    chan struct{}      // closed when it has ended

	Begun atomic.Bool // one was, since the log was opened
	// Text describes the state of the repair; nil while there is none.
	Text atomic.Pointer[string]
}

// DamagedSegment is a damaged file with its error.
type DamagedSegment struct {
	File  string
	Cause error
}

// repairsMost bounds those that wait. More will be found again.
const repairsMost = 1024

// UncommittedTime is how long a repair waits until entries are known to be committed.
const UncommittedTime = 2 * time.Second

// Add adds a damaged segment. If begin is not nil, the caller must run it in a goroutine.
func (r *repairs) Add(parent context.Context, d DamagedSegment, work func(context.Context)) (begin func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := slices.ContainsFunc(r.waiting, func(w DamagedSegment) bool { return w.File == d.File })
	if known || r.closed || len(r.waiting) == repairsMost {
		return nil
	}
	r.waiting = append(r.waiting, d)
	if r.cancel != nil {
		return nil
	}
	text := fmt.Sprint(d.Cause)
	r.Text.Store(&text)
	r.Begun.Store(true)
	ctx, cancel := context.WithCancel(parent)
	done := make(chan struct{})
	r.cancel, r.done = cancel, done
	return func() {
		defer close(done)
		defer cancel()
		work(ctx)
	}
}

// Next returns the segment to repair next. If it returns false, the goroutine must end.
func (r *repairs) Next() (DamagedSegment, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 || r.closed {
		r.waiting, r.cancel = nil, nil
		r.Text.Store(nil)
		return DamagedSegment{}, false
	}
	return r.waiting[0], true
}

// Finished removes the first segment.
func (r *repairs) Finished() {
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

// Underway reports whether a segment is under repair.
func (r *repairs) Underway() bool { return r.Text.Load() != nil }

// problem describes the damage and the state of the repair; "" if there is no damage.
func (r *repairs) problem() string {
	if text := r.Text.Load(); text != nil {
		return *text
	}
	return ""
}

// Stopped is called if the goroutine can no longer be started.
func (r *repairs) Stopped() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.cancel()
	close(r.done)
}
