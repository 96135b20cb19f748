// Package memory keeps a log in memory, for logs of durability class memory.
package memory

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"sync"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

var _ segment.Log = (*Log)(nil)

// Log is a log without a disk, for logs of durability class memory. It is lost when the process
// ends. A run of stepBytes corresponds to a segment on disk: the replica saves a snapshot at its
// start, and Trim frees whole runs.
type Log struct {
	entries
	hard      segment.HardState
	conf      []byte
	step      uint64           // bytes when the newest step began
	stepFirst uint64           // index of its first entry
	snapshots []memorySnapshot // rising
}

// entries holds the entries of a log. Its mu guards the rest of the log, too.
type entries struct {
	mu     sync.RWMutex
	frames []segment.Entry // without gaps; the first is first
	before []uint64        // payload bytes before each frame, since the log's creation
	first  uint64
	term   uint64        // of the entry first-1
	start  record.Offset // first offset of the first entry, or of the entry to come
	bytes  uint64        // payload of all entries since creation
	closed bool
}

type memorySnapshot struct {
	index, term uint64
	data        []byte
}

const (
	// frameCost is the memory in bytes that an entry occupies besides its payload.
	frameCost = 80
	// stepBytes is how many bytes of entries a trimmed log may keep in vain. It is small beside what
	// a busy log holds, and large enough for snapshots to be rare.
	stepBytes = 4 << 20
)

// New returns an empty log that starts from b.
func New(b segment.Bootstrap) *Log {
	return &Log{
		entries: entries{first: b.Index + 1, term: b.Term, start: b.Start}, stepFirst: b.Index + 1, hard: b.HardState, conf: b.ConfState,
		snapshots: []memorySnapshot{{b.Index, b.Term, slices.Clone(b.Snapshot)}},
	}
}

func (m *Log) Write(ws []segment.Write) (segment.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return segment.Result{}, segment.ErrClosed
	}
	if err := segment.CheckWrites(ws, m.first, m.next()); err != nil {
		return segment.Result{}, err
	}
	var result segment.Result
	for i := range ws {
		for _, f := range ws[i].Entries {
			m.cut(f.Index)
			if m.bytes-m.step+(f.Index-m.stepFirst)*frameCost >= stepBytes {
				m.step, m.stepFirst = m.bytes, f.Index
				result.Rolled = append(result.Rolled, f.Index)
			}
			m.frames = append(m.frames, f)
			m.before = append(m.before, m.bytes)
			m.bytes += uint64(len(f.Payload))
		}
		if ws[i].HardState != nil {
			m.hard = *ws[i].HardState
		}
	}
	segment.CallWritten(ws)
	return result, nil
}

// cut removes the entries from i on.
func (m *Log) cut(i uint64) {
	if at := int(i - m.first); at < len(m.frames) {
		m.bytes = m.before[at]
		m.step, m.stepFirst = min(m.step, m.bytes), min(m.stepFirst, i)
		clear(m.frames[at:])
		m.frames, m.before = m.frames[:at], m.before[:at]
	}
}

func (e *entries) next() uint64 { return e.first + uint64(len(e.frames)) }

func (m *Log) Mark() error { return m.failed() }

// Rest implements segment.Log.
func (m *Log) Rest() {}

func (e *entries) failed() error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return segment.ErrClosed
	}
	return nil
}

func (e *entries) FirstIndex() uint64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.first
}

func (e *entries) LastIndex() uint64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.next() - 1
}

func (e *entries) Term(i uint64) (uint64, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	switch {
	case e.closed:
		return 0, segment.ErrClosed
	case i+1 < e.first:
		return 0, fmt.Errorf("term of entry %d, the first is %d: %w", i, e.first, segment.ErrTrimmed)
	case i >= e.next():
		return 0, fmt.Errorf("term of entry %d, the last is %d: %w", i, e.next()-1, segment.ErrUnavailable)
	case i+1 == e.first:
		return e.term, nil
	}
	return e.frames[i-e.first].Term, nil
}

func (e *entries) TermInMemory(i uint64) (uint64, error) { return e.Term(i) }

func (e *entries) StartOffset() record.Offset {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.start
}

func (e *entries) Entries(lo, hi uint64, maxBytes int) ([]segment.Entry, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	switch {
	case e.closed:
		return nil, segment.ErrClosed
	case lo >= hi || hi > e.next():
		return nil, fmt.Errorf("entries [%d, %d), the last is %d: %w", lo, hi, e.next()-1, segment.ErrUnavailable)
	case lo < e.first:
		return nil, fmt.Errorf("entry %d, the first is %d: %w", lo, e.first, segment.ErrTrimmed)
	}
	frames := e.frames[lo-e.first : hi-e.first]
	n, bytes := 1, len(frames[0].Payload)
	for n < len(frames) && bytes+len(frames[n].Payload) <= maxBytes {
		bytes += len(frames[n].Payload)
		n++
	}
	return slices.Clone(frames[:n]), nil
}

// find returns the number of frames for which before holds. It must hold for all frames up to
// some place and for none after.
func (e *entries) find(before func(k int) bool) int {
	return sort.Search(len(e.frames), func(k int) bool { return !before(k) })
}

// offset returns the first offset of the k-th frame, or that of the next entry.
func (e *entries) offset(k int) record.Offset {
	switch {
	case k < len(e.frames):
		return e.frames[k].First
	case k > 0:
		return e.frames[k-1].First + record.Offset(e.frames[k-1].Count)
	}
	return e.start
}

func (e *entries) OffsetAtTime(unixMs int64) (record.Offset, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return 0, segment.ErrClosed
	}
	// Entries of Raft's own may carry no time, so this is no binary search.
	k := slices.IndexFunc(e.frames, func(f segment.Entry) bool { return f.Time >= unixMs })
	if k < 0 {
		k = len(e.frames)
	}
	return e.offset(k), nil
}

// bytesBefore returns the payload bytes of all entries so far that begin below o.
func (e *entries) bytesBefore(o record.Offset) uint64 {
	if k := e.find(func(k int) bool { return e.frames[k].First < o }); k < len(e.frames) {
		return e.before[k]
	}
	return e.bytes
}

// LookUpKeys implements segment.Log. A log in memory has no summaries.
func (e *entries) LookUpKeys(record.Offset, *segment.KeyQuery) segment.KeyAnswer {
	return segment.KeyAnswer{}
}

// Summarize implements segment.Log.
func (e *entries) Summarize(func() bool) (more bool, err error) { return false, nil }

func (e *entries) BytesFrom(from ...record.Offset) ([]int64, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return nil, segment.ErrClosed
	}
	bytes := make([]int64, len(from))
	for i, o := range from {
		bytes[i] = int64(e.bytes - e.bytesBefore(o))
	}
	return bytes, nil
}

func (e *entries) OffsetAtSize(bytes int64, end record.Offset) (record.Offset, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return 0, segment.ErrClosed
	}
	total := e.bytesBefore(end)
	if total < uint64(bytes) {
		return e.start, nil
	}
	k := e.find(func(k int) bool { return e.before[k] < total-uint64(bytes) })
	return min(e.offset(k), end), nil
}

func (e *entries) Bytes() int64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if len(e.frames) == 0 {
		return 0
	}
	return int64(e.bytes-e.before[0]) + int64(len(e.frames)*frameCost)
}

func (m *Log) Trim(below uint64) (more bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false, segment.ErrClosed
	}
	base := 0
	for base+1 < len(m.snapshots) && m.snapshots[base+1].index < min(below, m.next()) {
		base++
	}
	below = m.snapshots[base].index + 1
	if below <= m.first {
		return false, nil
	}
	m.snapshots = slices.Delete(m.snapshots, 0, base)
	n := int(below - m.first)
	m.term, m.start, m.first = m.frames[n-1].Term, m.offset(n), below
	clear(m.frames[:n]) // releases the payloads
	m.frames, m.before = m.frames[n:], m.before[n:]
	return false, nil
}

func (m *Log) SaveSnapshot(index, term uint64, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return segment.ErrClosed
	}
	if index+1 < m.first {
		return nil // the log no longer continues from there
	}
	saved := memorySnapshot{index, term, slices.Clone(data)}
	at, found := slices.BinarySearchFunc(m.snapshots, index, func(s memorySnapshot, i uint64) int { return cmp.Compare(s.index, i) })
	if found {
		m.snapshots[at] = saved
		return nil
	}
	m.snapshots = slices.Insert(m.snapshots, at, saved)
	return nil
}

func (m *Log) Snapshots() []uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var indexes []uint64
	for _, s := range m.snapshots {
		if s.index+1 >= m.first {
			indexes = append(indexes, s.index)
		}
	}
	return indexes
}

func (m *Log) ReadSnapshot(index uint64) (term uint64, data []byte, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, s := range m.snapshots {
		if s.index == index {
			return s.term, s.data, nil
		}
	}
	return 0, nil, fs.ErrNotExist
}

func (m *Log) LoadBase() (index, term uint64, data []byte, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return 0, 0, nil, segment.ErrClosed
	}
	base := m.snapshots[0]
	if base.index+1 != m.first {
		return 0, 0, nil, segment.ErrNoSnapshot
	}
	return base.index, base.term, slices.Clone(base.data), nil
}

func (m *Log) LoadSnapshot() (index, term uint64, data []byte, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return 0, 0, nil, segment.ErrClosed
	}
	newest := m.snapshots[len(m.snapshots)-1]
	return newest.index, newest.term, slices.Clone(newest.data), nil
}

func (m *Log) Reset(index, term uint64, start record.Offset, hs segment.HardState, snapshot []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return segment.ErrClosed
	}
	m.frames, m.before, m.bytes, m.step = nil, nil, 0, 0
	m.first, m.stepFirst, m.term, m.start, m.hard = index+1, index+1, term, start, hs
	m.snapshots = []memorySnapshot{{index, term, slices.Clone(snapshot)}}
	return nil
}

func (m *Log) HardState() segment.HardState {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.hard
}

func (m *Log) ConfState() []byte { return m.conf }

func (m *Log) Prepare() (bool, error) { return false, nil }

func (m *Log) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.frames, m.before = nil, nil
	return nil
}

// memoryCursor is a cursor over the entries of a log in memory. It holds an index and copies
// nothing.
type memoryCursor struct {
	log   *entries
	from  record.Offset
	index uint64
}

func (e *entries) NewCursor(from record.Offset) (segment.Cursor, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return nil, segment.ErrClosed
	}
	if from < e.start {
		return nil, fmt.Errorf("offset %d, the log starts at %d: %w", from, e.start, segment.ErrTrimmed)
	}
	k := e.find(func(k int) bool { return e.frames[k].First < from })
	return &memoryCursor{log: e, from: from, index: e.first + uint64(max(k-1, 0))}, nil
}

func (c *memoryCursor) Close() {}

// Lend does nothing, since Next does not copy.
func (c *memoryCursor) Lend([]byte) {}

// Next returns the payloads without copying them. They are never changed.
func (c *memoryCursor) Next(limit record.Offset, maxBytes int) ([]segment.Entry, error) {
	m := c.log
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, segment.ErrClosed
	}
	if c.index < m.first {
		return nil, fmt.Errorf("entry %d, the first is %d: %w", c.index, m.first, segment.ErrTrimmed)
	}
	var frames []segment.Entry
	for bytes := 0; c.index < m.next(); c.index++ {
		f := m.frames[c.index-m.first]
		if f.First >= limit || len(frames) > 0 && bytes+len(f.Payload) > maxBytes {
			break
		}
		if f.First < c.from && f.First+record.Offset(f.Count) <= c.from {
			continue
		}
		bytes += len(f.Payload)
		frames = append(frames, f)
	}
	return frames, nil
}
