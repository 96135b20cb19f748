package hosted

import (
	"maps"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
)

// The age of a replica's knowledge bounds how stale a read may be. It is the time, on the replica's
// own clock, since it sent the newest question to the leader whose answer it has applied:
// everything committed before that moment is known here. While there are readers, it asks again
// with every tick.

// Ages are the logs that are read, whose replicas ask again.
type Ages struct {
	mu   sync.Mutex
	read map[*Log]int // reads in progress that report how old their knowledge is; at least 1
	now  []*Log       // of Refresh
}

// MinMaxAge is the smallest age limit that one confirmation per tick can meet.
const MinMaxAge = 2 * core.TickMillis * time.Millisecond

// Begin adds a read of a log. End must follow.
func (a *Ages) Begin(h *Log) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.read == nil {
		a.read = map[*Log]int{}
	}
	a.read[h]++
}

// End removes a read of a log.
func (a *Ages) End(h *Log) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.read[h]--; a.read[h] == 0 {
		delete(a.read, h)
	}
}

// Refresh makes the replicas of all logs that are read ask their leaders. It is to be called once
// per tick. Reads begin and end meanwhile.
func (a *Ages) Refresh() { a.each((*Log).refreshAge) }

// each calls f with the logs that are read. One call of it lasts at a time.
func (a *Ages) each(f func(*Log)) {
	a.mu.Lock()
	a.now = slices.AppendSeq(a.now[:0], maps.Keys(a.read))
	a.mu.Unlock()
	for _, h := range a.now {
		f(h)
	}
	clear(a.now)
}

// Age returns how old the knowledge of this replica may be. Time during which the machine was
// suspended counts, since the other nodes continued.
func (h *Log) Age() time.Duration {
	s := h.Replica.Status()
	switch {
	case s.SoleVoter && s.Leading:
		return 0
	case s.Known == 0:
		return reading.UnknownAge
	}
	return time.Duration(h.Replica.Elapsed()-s.Known) * time.Millisecond
}

// refreshAge asks the leader for a confirmation if no request is in progress.
func (h *Log) refreshAge() {
	if h.Replica.Status().SoleVoter || h.asking.Swap(true) {
		return
	}
	answered := func(*record.Refusal) { h.asking.Store(false) }
	if r := h.Replica.Do(func(c *core.Core) { c.Reads.Confirm(answered) }); r != nil {
		answered(nil)
	}
}
