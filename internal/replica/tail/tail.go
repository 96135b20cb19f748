// Package tail is the newest part of a replica's log in memory: the core writes
// it, Raft, the disk writer and readers share its bytes.
package tail

import (
	"fmt"
	"sort"
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// busyBytes is what a busy log keeps in memory for tailing readers, where the
// node has as much for each.
const busyBytes = 16 << 20

// mostBytes is what a log may keep in memory of entries that wait for the disk or for a
// majority, where the node has as much for each. A leader has less in flight.
const mostBytes = 128 << 20

// Tail is the newest part of the log in memory, with the bounds that readers
// may see. Raft takes entries from it that it hands out again; tailing readers
// share its bytes without copying. The core is its only writer.
//
//	      start                          end
//	        |      readable              |
//	disk only ........ | entries in memory ........ |
//	                first                 commit  last
type Tail struct {
	Budget *budget.Shares // of the node

	mu      sync.RWMutex
	entries []Entry // consecutive by index
	bytes   int     // of payload in entries
	// [start, end) is committed and not trimmed. Neither ever falls.
	start, end record.Offset
	// holds are those of the log, at least as new as start: they say where to begin behind it.
	holds []record.Hold
	// failed ends every read, with the reason.
	failed error
	// changed is closed at the next change of a bound; nil while nobody waits.
	changed chan struct{}
	waiters map[Waiter]struct{}
}

// New returns the tail of a log that is readable in [start, end).
func New(b *budget.Shares, start, end record.Offset) *Tail {
	return &Tail{Budget: b, start: start, end: end}
}

// Limit is how many bytes of payload to keep, once they can be evicted.
func (t *Tail) Limit() int { return int(t.Budget.Share(busyBytes)) }

// Append adds entries; those at or above the first one's index are replaced.
func (t *Tail) Append(entries []Entry) {
	if len(entries) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.count(t.bytes)
	keep := 0
	if n := len(t.entries); n > 0 && entries[0].GetIndex() > t.entries[0].GetIndex() {
		keep = int(min(entries[0].GetIndex()-t.entries[0].GetIndex(), uint64(n)))
	}
	for i := keep; i < len(t.entries); i++ {
		t.bytes -= len(t.entries[i].Data)
	}
	clear(t.entries[keep:])
	t.entries = append(t.entries[:keep], entries...)
	for i := range entries {
		t.bytes += len(entries[i].Data)
	}
}

// Evict drops the oldest entries below index until the tail is within limit.
func (t *Tail) Evict(below uint64, limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.count(t.bytes)
	n := 0
	for n < len(t.entries) && t.bytes > limit && t.entries[n].GetIndex() < below {
		t.bytes -= len(t.entries[n].Data)
		n++
	}
	clear(t.entries[:n])
	if t.entries = t.entries[n:]; len(t.entries) == 0 {
		t.entries = nil // and its array
	}
}

// HasRoom reports whether the log's share of the memory has room for so many bytes more,
// if need be after entries below index have been dropped. An empty tail has room for
// anything.
func (t *Tail) HasRoom(bytes int, below uint64) bool {
	most := int(t.Budget.Share(mostBytes))
	if t.bytes+bytes > most { // nobody else writes it
		t.Evict(below, max(most-bytes, 0))
	}
	return t.bytes == 0 || t.bytes+bytes <= most
}

// Reset forgets all entries: the log continues at an offset, which nobody has
// Read beyond, with other holds.
func (t *Tail) Reset(at record.Offset, holds []record.Hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.count(t.bytes)
	t.entries, t.bytes = nil, 0
	t.start, t.end, t.holds = max(t.start, at), max(t.end, at), holds
	t.endWaits()
	t.wake()
}

// Release forgets all entries, for good: the replica has ended.
func (t *Tail) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.count(t.bytes)
	t.entries, t.bytes = nil, 0
}

// count reports to the budget how the tail has changed. The caller holds mu.
func (t *Tail) count(before int) {
	if t.bytes != before {
		t.Budget.Changed(int64(before), int64(t.bytes))
	}
}

// Publish moves the bounds forward and wakes those who wait for it. The holds are those of the log
// at that point, which RefuseTrimmed names.
func (t *Tail) Publish(start, end record.Offset, holds []record.Hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds = holds
	if start <= t.start && end <= t.end {
		return
	}
	if start > t.start {
		t.endWaits()
	} else {
		t.countReadable(end)
	}
	t.start, t.end = max(t.start, start), max(t.end, end)
	t.wake()
}

// Fail ends all reads with err.
func (t *Tail) Fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = err
		t.endWaits()
		t.wake()
	}
}

func (t *Tail) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Bounds returns the readable range, or why there is none any more.
func (t *Tail) Bounds() (start, end record.Offset, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.start, t.end, t.failed
}

// RefuseTrimmed refuses a read of an offset below start, which Bounds has returned. A hold that was moved before
// the log was trimmed to it is known with its new place.
func RefuseTrimmed(t *Tail, asked, start record.Offset) *record.Refusal {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return record.Trimmed(asked, start, t.holds)
}

// Changed returns a channel that is closed when a bound differs from those
// given; nil when one does already.
func (t *Tail) Changed(start, end record.Offset) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil || t.start != start || t.end != end {
		return nil
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// Read appends to dst the committed entries that hold records of
// [from, until), about maxBytes of them and at least one. It reports false
// when the first of them is no longer in memory.
func (t *Tail) Read(dst []segment.Entry, from, until record.Offset, maxBytes int) ([]segment.Entry, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.entries) == 0 || from < t.entries[0].First {
		return dst, false
	}
	until = min(until, t.end)
	i := sort.Search(len(t.entries), func(i int) bool { return t.entries[i].End > from })
	for size := 0; i < len(t.entries) && t.entries[i].First < until; i++ {
		e := &t.entries[i]
		if e.Count == 0 {
			continue
		}
		if size += len(e.Data); size > maxBytes && size > len(e.Data) {
			break
		}
		dst = append(dst, e.Frame())
	}
	return dst, true
}

// Slice returns the entries [lo, hi) for Raft, about maxBytes of them and at
// least one, or false if the first is not in memory.
func (t *Tail) Slice(lo, hi, maxBytes uint64) ([]*raftpb.Entry, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.entries) == 0 || lo < t.entries[0].GetIndex() {
		return nil, false
	}
	at := lo - t.entries[0].GetIndex()
	if at+hi-lo > uint64(len(t.entries)) {
		return nil, false
	}
	out := make([]*raftpb.Entry, 0, hi-lo)
	size := uint64(0)
	for i := range t.entries[at : at+hi-lo] {
		e := t.entries[at:][i].Entry
		if size += uint64(len(e.Data)); size > maxBytes && len(out) > 0 {
			break
		}
		out = append(out, e)
	}
	return out, true
}

// At returns the entry of an index, if it is in memory.
func (t *Tail) At(index uint64) (Entry, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.entries) == 0 || index < t.entries[0].GetIndex() {
		return Entry{}, false
	}
	i := index - t.entries[0].GetIndex()
	if i >= uint64(len(t.entries)) {
		return Entry{}, false
	}
	return t.entries[i], true
}

// CheckInvariants returns an error that names what does not hold: the entries
// follow each other by index and by offset, and their sizes add up.
func (t *Tail) CheckInvariants() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.start > t.end && t.failed == nil {
		return fmt.Errorf("the readable range [%d, %d) is reversed", t.start, t.end)
	}
	bytes := 0
	for i := range t.entries {
		e := &t.entries[i]
		bytes += len(e.Data)
		if i == 0 {
			continue
		}
		before := &t.entries[i-1]
		switch {
		case e.GetIndex() != before.GetIndex()+1:
			return fmt.Errorf("entry %d follows entry %d in memory", e.GetIndex(), before.GetIndex())
		case e.GetTerm() < before.GetTerm():
			return fmt.Errorf("entry %d of term %d follows one of term %d", e.GetIndex(), e.GetTerm(), before.GetTerm())
		case e.First != before.End:
			return fmt.Errorf("entry %d begins at offset %d, the one before ends at %d", e.GetIndex(), e.First, before.End)
		}
	}
	if bytes != t.bytes {
		return fmt.Errorf("%d bytes are in memory, %d are counted", bytes, t.bytes)
	}
	return nil
}
