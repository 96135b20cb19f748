// Package tail holds the newest part of a replica's log in memory. The core writes it; Raft, the
// disk writer and readers share its bytes.
package tail

import (
	"context"
	"fmt"
	"math"
	"sort"
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// busyBytes is how much a busy log keeps in memory for tailing readers, if the node has as much
// for each log.
const busyBytes = 16 << 20

// mostBytes is how much a log may keep in memory of entries that wait for the disk or for a
// majority, if the node has as much for each log. A leader has less in flight.
const mostBytes = 128 << 20

// Tail is the newest part of the log in memory, with the bounds of the readable records. Raft
// reads entries from it; tailing readers share its bytes without copying. Only the core writes to
// it.
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
	// [start, end) is committed and not trimmed. Neither ever decreases.
	start, end record.Offset
	// holds are the holds of the log, at least as recent as start.
	holds []record.Hold
	// failed ends every read, with the reason.
	failed error
	// changed is closed at the next change of a bound; nil if nothing waits for it.
	changed chan struct{}
	waiters map[Waiter]struct{}
}

// New returns the tail of a log that is readable in [start, end).
func New(b *budget.Shares, start, end record.Offset) *Tail {
	return &Tail{Budget: b, start: start, end: end}
}

// Limit returns how many bytes of payload to keep of entries that can be evicted.
func (t *Tail) Limit() int { return int(t.Budget.Share(busyBytes)) }

// Append adds entries. Entries at or above the index of the first one are replaced.
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

// HasRoom reports whether the log's share of the memory has room for the given bytes, if
// necessary after dropping entries below index. An empty tail has room for anything.
func (t *Tail) HasRoom(bytes int, below uint64) bool {
	most := int(t.Budget.Share(mostBytes))
	if t.bytes+bytes > most { // no other goroutine writes
		t.Evict(below, max(most-bytes, 0))
	}
	return t.bytes == 0 || t.bytes+bytes <= most
}

// Reset drops all entries. The log continues at an offset that no read has passed, with other
// holds.
func (t *Tail) Reset(at record.Offset, holds []record.Hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.count(t.bytes)
	t.entries, t.bytes = nil, 0
	t.start, t.end, t.holds = max(t.start, at), max(t.end, at), holds
	t.endWaits()
	t.wake()
}

// Release drops all entries, because the replica has ended.
func (t *Tail) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.count(t.bytes)
	t.entries, t.bytes = nil, 0
}

// count reports a change of the tail's size to the budget. The caller holds mu.
func (t *Tail) count(before int) {
	if t.bytes != before {
		t.Budget.Changed(int64(before), int64(t.bytes))
	}
}

// Publish moves the bounds forward and wakes those that wait for it. holds are the holds of the
// log at that point, which RefuseTrimmed names.
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

// Bounds returns the readable range, or the reason why there is none any more.
func (t *Tail) Bounds() (start, end record.Offset, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.start, t.end, t.failed
}

// RefuseTrimmed returns the refusal of a read of an offset below start, which Bounds has
// returned. It knows the new place of a hold that was moved before the log was trimmed to start.
func RefuseTrimmed(t *Tail, asked, start record.Offset) *record.Refusal {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return record.Trimmed(asked, start, t.holds)
}

// AwaitBounds waits until the bounds are as ok wants them, and returns them. The error is that of
// Bounds or of ctx.
func (t *Tail) AwaitBounds(ctx context.Context, ok func(start, end record.Offset) bool) (start, end record.Offset, err error) {
	for {
		start, end, err = t.Bounds()
		if err != nil || ok(start, end) {
			return start, end, err
		}
		changed := t.Changed(start, end)
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return start, end, ctx.Err()
		}
	}
}

// Changed returns a channel that is closed when a bound differs from those given, or nil if one
// does already.
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

// Read appends to dst the committed entries that contain records of [from, until): at least one,
// and about maxBytes of them. It returns false if the first of them is no longer in memory.
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

// InMemory returns the index and the first offset of the oldest entry in memory, or the largest
// ones if none is. A read of segments must end there: the entry in memory may wait for the disk,
// and the segments may have an older one with its index, which was never committed and is
// replaced by that write. Neither decreases below what is readable.
func (t *Tail) InMemory() (index uint64, first record.Offset) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.entries) == 0 {
		return math.MaxUint64, math.MaxInt64
	}
	return t.entries[0].GetIndex(), t.entries[0].First
}

// OffsetAtTime returns the first offset of the first entry in memory whose time is unixMs or later,
// or their end if there is none. It returns false if not all entries from the offset from on are
// in memory.
func (t *Tail) OffsetAtTime(from record.Offset, unixMs int64) (record.Offset, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.entries) == 0 || from < t.entries[0].First {
		return 0, false
	}
	i := sort.Search(len(t.entries), func(i int) bool { return t.entries[i].Time >= unixMs })
	if i == len(t.entries) {
		return t.entries[i-1].End, true
	}
	return t.entries[i].First, true
}

// OffsetAtSize returns the smallest first offset of a readable entry in memory such that the entries
// from it to end hold at most bytes of payload, and how much less than bytes that is. It returns
// end if even the last entry is larger, or if none is in memory.
func (t *Tail) OffsetAtSize(bytes int64, end record.Offset) (at record.Offset, left int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	at, left = end, bytes
	for i := len(t.entries) - 1; i >= 0; i-- {
		e := &t.entries[i]
		if e.First >= end {
			continue
		}
		if int64(len(e.Data)) > left {
			break
		}
		at, left = e.First, left-int64(len(e.Data))
	}
	return at, left
}

// BytesBetween returns the total payload size in bytes of the entries in memory that begin in
// [from, until). It returns false if some of them are not in memory.
func (t *Tail) BytesBetween(from, until record.Offset) (bytes int64, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if from >= until {
		return 0, true
	}
	if len(t.entries) == 0 || from < t.entries[0].First {
		return 0, false
	}
	i := sort.Search(len(t.entries), func(i int) bool { return t.entries[i].First >= from })
	for ; i < len(t.entries) && t.entries[i].First < until; i++ {
		bytes += int64(len(t.entries[i].Data))
	}
	return bytes, true
}

// Slice returns about maxBytes of the entries [lo, hi) for Raft, at least one, or false if the
// first is not in memory.
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

// At returns the entry with an index if it is in memory.
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

// CheckInvariants returns an error that names a violated invariant: the entries follow each other
// by index and by offset, and their sizes add up.
func (t *Tail) CheckInvariants() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.start > t.end && t.failed == nil {
		return fmt.Errorf("the readable range [%d, %d) is reversed", t.start, t.end)
	}
	bytes := 0
	var index, term uint64 // of the entry before
	for i := range t.entries {
		e := &t.entries[i]
		bytes += len(e.Data)
		before, beforeTerm := index, term
		index, term = e.GetIndex(), e.GetTerm()
		switch {
		case i == 0:
		case index != before+1:
			return fmt.Errorf("entry %d follows entry %d in memory", index, before)
		case term < beforeTerm:
			return fmt.Errorf("entry %d of term %d follows one of term %d", index, term, beforeTerm)
		case e.First != t.entries[i-1].End:
			return fmt.Errorf("entry %d begins at offset %d, the one before ends at %d", index, e.First, t.entries[i-1].End)
		}
	}
	if bytes != t.bytes {
		return fmt.Errorf("%d bytes are in memory, %d are counted", bytes, t.bytes)
	}
	return nil
}

// Waiter waits for records of several tails at once. Its methods are called with the locks of the
// tails held, and must not block.
type Waiter interface {
	// Readable adds the bytes of entries that have become readable.
	Readable(bytes int)
	// End ends the wait, because the bounds of a tail are not those given, its start has moved, or
	// it has failed.
	End()
}

// Await makes w wait for records beyond the given bounds, until Leave.
func (t *Tail) Await(w Waiter, start, end record.Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil || t.start != start || t.end != end {
		w.End()
		return
	}
	if t.waiters == nil {
		t.waiters = map[Waiter]struct{}{}
	}
	t.waiters[w] = struct{}{}
}

// Leave undoes Await.
func (t *Tail) Leave(w Waiter) {
	t.mu.Lock()
	delete(t.waiters, w)
	t.mu.Unlock()
}

// countReadable counts the records up to end for all waiters. The caller holds mu.
func (t *Tail) countReadable(end record.Offset) {
	if len(t.waiters) == 0 {
		return
	}
	bytes := 0
	for i := len(t.entries) - 1; i >= 0 && t.entries[i].End > t.end; i-- {
		if t.entries[i].End <= end && t.entries[i].Count > 0 {
			bytes += len(t.entries[i].Data)
		}
	}
	for w := range t.waiters {
		w.Readable(bytes)
	}
}

// endWaits ends the wait of all waiters. The caller holds mu.
func (t *Tail) endWaits() {
	for w := range t.waiters {
		w.End()
	}
}
