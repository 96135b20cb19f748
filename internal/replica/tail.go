package replica

import (
	"sort"
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Tail is the newest part of the log in memory, with the bounds that readers
// may see. Raft takes entries from it that it hands out again; tailing readers
// share its bytes without copying. The core is its only writer.
//
//	      start                          end
//	        |      readable              |
//	disk only ........ | entries in memory ........ |
//	                first                 commit  last
type Tail struct {
	budget *budget.Shares // of the node

	mu      sync.RWMutex
	entries []tailEntry // consecutive by index
	bytes   int         // of payload in entries
	// [start, end) is committed and not trimmed. Neither ever falls.
	start, end record.Offset
	// failed ends every read, with the reason.
	failed error
	// changed is closed at the next change of a bound; nil while nobody waits.
	changed chan struct{}
}

// tailEntry is a Raft entry with what readers and segments need of it. Its
// Data is shared by reference with Raft, the writer and readers and is never
// changed.
type tailEntry struct {
	*raftpb.Entry
	first, end record.Offset // end differs from first+count after a fast-forward
	count      uint32
	time       int64
	crc        uint32
}

func newTail(b *budget.Shares, start, end record.Offset) *Tail {
	return &Tail{budget: b, start: start, end: end}
}

// limit is how many bytes of payload to keep, once they can be evicted.
func (t *Tail) limit() int { return int(t.budget.Share(tailBytes)) }

// append adds entries; those at or above the first one's index are replaced.
func (t *Tail) append(entries []tailEntry) {
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

// evict drops the oldest entries below index until the tail is within limit.
func (t *Tail) evict(below uint64, limit int) {
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

// reset forgets all entries: the log goes on at an offset, which nobody has
// read beyond.
func (t *Tail) reset(at record.Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.count(t.bytes)
	t.entries, t.bytes = nil, 0
	t.start, t.end = max(t.start, at), max(t.end, at)
	t.wake()
}

// release forgets all entries, for good: the replica has ended.
func (t *Tail) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.count(t.bytes)
	t.entries, t.bytes = nil, 0
}

// count tells the budget how the tail has changed. The caller holds mu.
func (t *Tail) count(before int) {
	if t.bytes != before {
		t.budget.Changed(int64(before), int64(t.bytes))
	}
}

// publish moves the bounds forward and wakes those who wait for it.
func (t *Tail) publish(start, end record.Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if start <= t.start && end <= t.end {
		return
	}
	t.start, t.end = max(t.start, start), max(t.end, end)
	t.wake()
}

// fail ends all reads with err.
func (t *Tail) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = err
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

// read appends to dst the committed entries that hold records of
// [from, until), about maxBytes of them and at least one. It reports false
// when the first of them is no longer in memory.
func (t *Tail) read(dst []segment.Frame, from, until record.Offset, maxBytes int) ([]segment.Frame, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.entries) == 0 || from < t.entries[0].first {
		return dst, false
	}
	until = min(until, t.end)
	i := sort.Search(len(t.entries), func(i int) bool { return t.entries[i].end > from })
	for size := 0; i < len(t.entries) && t.entries[i].first < until; i++ {
		e := &t.entries[i]
		if e.count == 0 {
			continue
		}
		if size += len(e.Data); size > maxBytes && size > len(e.Data) {
			break
		}
		dst = append(dst, e.frame())
	}
	return dst, true
}

// slice returns the entries [lo, hi) for Raft, about maxBytes of them and at
// least one, or false if the first is not in memory.
func (t *Tail) slice(lo, hi, maxBytes uint64) ([]*raftpb.Entry, bool) {
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

// at returns the entry of an index, if it is in memory.
func (t *Tail) at(index uint64) (tailEntry, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.entries) == 0 || index < t.entries[0].GetIndex() {
		return tailEntry{}, false
	}
	i := index - t.entries[0].GetIndex()
	if i >= uint64(len(t.entries)) {
		return tailEntry{}, false
	}
	return t.entries[i], true
}

func (e *tailEntry) frame() segment.Frame {
	return segment.Frame{
		Index: e.GetIndex(), Term: e.GetTerm(), Type: uint8(e.GetType()),
		First: e.first, Count: e.count, Time: e.time, CRC: e.crc, Payload: e.Data,
	}
}

// describe completes an entry with the bounds its payload tells; one without
// records lies at the end of the log, at the time of the entry before.
func describe(e *raftpb.Entry, crc uint32, end record.Offset, time int64) (tailEntry, error) {
	t := tailEntry{Entry: e, first: end, end: end, time: time, crc: crc}
	if e.GetType() != raftpb.EntryNormal || len(e.Data) == 0 {
		return t, nil
	}
	parsed, err := record.ParseEntry(e.Data)
	if err != nil {
		return t, err
	}
	t.first, t.end, t.count, t.time = parsed.First, parsed.End(), parsed.Count, parsed.Time
	if parsed.Kind == record.EntryCommand {
		c, err := record.ParseCommand(parsed.Body)
		if err != nil {
			return t, err
		}
		if c.Kind == record.Trim && c.Flags&record.FlagFastForward != 0 {
			t.end = max(t.end, c.Offset)
		}
	}
	return t, nil
}
