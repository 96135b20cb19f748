package store

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sort"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// cursor reads chunks that begin and end with whole frames, each with one pread.
type cursor struct {
	reader   *reader
	from     record.Offset // entries that end at or below it are left out
	index    uint64        // of the next entry
	segment  *Segment      // in use; nil: to be looked up by index
	position int64         // of the next frame in segment; 0: unknown

	lent []byte // memory for the next chunk
	head []byte // of a frame, see NextStored

	prefetched int64 // position in segment up to which the kernel was asked to read
}

// prefetchDistance is how far ahead of a cursor the kernel is asked to read a
// file that is not in memory.
const prefetchDistance = 8 << 20

func (r *reader) NewCursor(from record.Offset) (segment.Cursor, error) {
	for {
		if err := r.failed(); err != nil {
			return nil, err
		}
		live := r.liveSegments() // before StartOffset, so that it begins at that offset or below
		if start := r.StartOffset(); from < start {
			return nil, fmt.Errorf("offset %d, the log starts at %d: %w", from, start, segment.ErrTrimmed)
		}
		c, err := r.cursorIn(live, from)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, segment.ErrTrimmed) {
			return nil, fmt.Errorf("find offset %d: %w", from, err)
		}
		// A segment was trimmed between the two steps; the log may still contain from.
	}
}

func (r *reader) cursorIn(live []*Segment, from record.Offset) (*cursor, error) {
	before := func(p *format.Point) bool { return p.Offset < from }
	k, err := r.lastBefore(live, before)
	if err != nil {
		return nil, err
	}
	seg := live[k]
	if err := r.useSegment(seg); err != nil {
		return nil, err
	}
	c := &cursor{reader: r, from: from, index: seg.First, segment: seg}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if p, ok := seg.index.Below(before); ok && p.Index < seg.end {
		c.index, c.position = p.Index, p.Position
	}
	return c, nil
}

func (c *cursor) Close() {
	if c.segment != nil {
		// Only the removal of a segment that has left the log can fail. The Trim after the next Open
		// tries it again.
		_ = c.reader.release(c.segment)
		c.segment = nil
	}
}

func (c *cursor) Lend(memory []byte) { c.lent = memory }

func (c *cursor) Next(limit record.Offset, maxBytes int) ([]segment.Entry, error) {
	for {
		b, stop, ok, err := c.chunk(limit, maxBytes)
		if err != nil || !ok {
			return nil, err
		}
		memory := c.lent
		c.lent = nil
		if err := b.read(memory); err != nil {
			return nil, err
		}
		frames, err := b.entries(c.index, stop, math.MaxInt, c.from, limit)
		c.index, c.position = b.next, b.position
		if len(frames) > 0 {
			b.segment.verified.add(b.verified, b.position)
			return frames, nil // the next call reports damage behind them
		}
		if err != nil || b.ended {
			return nil, err
		}
	}
}

// chunk is a part of a segment that begins and ends with a whole frame.
type chunk struct {
	segment    *Segment
	file       vfs.File
	salt       uint64
	begin, end int64
	data       []byte
	place      uint64 // index of the first entry in it
	reach      uint64 // one beyond the last entry that may be in it

	// Results of entries.
	next     uint64 // index of the entry behind the last returned or skipped
	position int64  // of the frame after that entry
	verified int64  // position of the first entry returned: everything from there to position matches its checksums
	ended    bool   // limit stopped it
}

// chunk prepares a read of about maxBytes at the cursor. stop is the index behind the last entry
// of its run. If ok is false, there is nothing to read yet.
func (c *cursor) chunk(limit record.Offset, maxBytes int) (b chunk, stop uint64, ok bool, err error) {
	r := c.reader
	for {
		if c.segment == nil {
			if c.index > r.LastIndex() {
				return b, 0, false, r.failed()
			}
			if c.segment, err = r.use(c.index); err != nil {
				c.segment = nil
				return b, 0, false, err
			}
			c.position, c.prefetched = 0, 0
		}
		if err := r.failed(); err != nil {
			return b, 0, false, err
		}
		r.mu.RLock()
		seg := c.segment
		end := seg.end
		if c.index < end {
			b, stop = r.chunkAt(seg, c.index, c.position, end, int64(maxBytes))
			b.narrow(seg.index, func(p *format.Point) bool { return p.Offset < limit })
			ahead := seg.index.Runs[len(seg.index.Runs)-1].End
			r.mu.RUnlock()
			c.prefetch(b, ahead)
			return b, stop, true, nil
		}
		active := seg == r.active
		r.mu.RUnlock()
		if active {
			return b, 0, false, nil
		}
		c.segment = nil
		if err := r.release(seg); err != nil {
			return b, 0, false, err
		}
	}
}

// prefetch asks the kernel to read well ahead of the cursor.
func (c *cursor) prefetch(b chunk, end int64) {
	if b.end+prefetchDistance/2 <= c.prefetched || c.prefetched >= end {
		return
	}
	from := max(c.prefetched, b.end)
	c.prefetched = min(b.end+prefetchDistance, end)
	if c.prefetched > from {
		b.file.Prefetch(from, c.prefetched-from)
	}
}

// chunkAt returns the chunk of seg that holds the entry i, and the index at which its run ends.
// The caller holds mu; i is below end.
func (r *reader) chunkAt(seg *Segment, i uint64, position int64, end uint64, maxBytes int64) (b chunk, stop uint64) {
	x := seg.index
	run, stop := x.Run(i)
	stop = min(stop, end)
	b = chunk{segment: seg, file: seg.file, salt: seg.header.Salt, begin: position, place: i, reach: stop}
	if position < run.Begin || position >= run.End {
		p, _ := x.Below(func(p *format.Point) bool { return p.Index <= i })
		b.begin, b.place = p.Position, p.Index
	}
	b.end = x.ChunkEnd(run, b.begin, min(max(maxBytes, 1), maxChunk))
	return b, stop
}

// narrow ends b at the first point that is not wanted, unless b would be empty: what lies behind
// would be read in vain.
func (b *chunk) narrow(x *format.Index, wanted func(*format.Point) bool) {
	k := sort.Search(len(x.Points), func(k int) bool { return !wanted(&x.Points[k]) })
	if k < len(x.Points) && x.Points[k].Position > b.begin {
		b.end = min(b.end, x.Points[k].Position)
	}
}

// maxChunk bounds one read, whatever size was requested, unless a single frame is larger.
const maxChunk = 64 << 20

// read reads the chunk from the file, into memory if it fits there.
func (b *chunk) read(memory []byte) error {
	if size := b.end - b.begin; size <= int64(len(memory)) {
		b.data = memory[:size]
	} else {
		b.data = make([]byte, size)
	}
	n, err := b.file.ReadAt(b.data, b.begin)
	if vfs.Unreadable(err) { // a lost sector stays lost; a transient error is not damage
		n, err = b.file.ReadAt(b.data, b.begin)
	}
	if err == io.EOF {
		b.data = b.data[:n] // the missing frame is noticed when frames are checked
		err = nil
	}
	if vfs.Unreadable(err) {
		return &segment.CorruptError{
			File: b.segment.Path, Position: b.begin, FirstIndex: b.place, LastIndex: max(b.reach, b.place+1) - 1, Detail: err.Error(),
		}
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", b.segment.Path, err)
	}
	return nil
}

// entries returns verified entries of [i, stop) in the chunk: at least one, and as many as fit in
// maxBytes of payload. It omits those that end at from or below, and stops at the first that
// begins at limit or above. If it returns both entries and an error, the damage lies behind the
// entries.
func (b *chunk) entries(i, stop uint64, maxBytes int, from, limit record.Offset) ([]segment.Entry, error) {
	var frames []segment.Entry
	w := format.Walker{Salt: b.salt, End: b.end}
	w.Use(b.data, b.begin)
	b.next, b.position = i, b.begin
	expected, payloads := b.place, 0
	for w.MoveTo(b.begin); b.next < stop && w.Next(); b.position = w.Position + w.Frame.Size() {
		h := &w.Frame
		if h.Kind != format.EntryFrame {
			continue
		}
		if h.Index != expected {
			w.Reject("entry %d where %d should be", h.Index, expected)
			break
		}
		if h.Index >= i {
			if h.First >= limit {
				b.ended = true
				return frames, nil
			}
			if payloads += int(h.Length); len(frames) > 0 && payloads > maxBytes {
				return frames, nil
			}
			if h.First >= from || h.First+record.Offset(h.Count) > from {
				payload, ok := w.Payload()
				if !ok {
					break
				}
				if len(frames) == 0 {
					b.verified = w.Position
				}
				frames = append(frames, h.Entry(payload))
			}
			b.next = h.Index + 1
		}
		expected++
	}
	if w.Bad == nil {
		return frames, nil
	}
	return frames, corruptFrame(b.file, b.segment.Path, b.salt, w.Position, b.end, expected, b.reach, w.Bad)
}

func (r *reader) Entries(lo, hi uint64, maxBytes int) (frames []segment.Entry, err error) {
	if err := r.failed(); err != nil {
		return nil, err
	}
	if last := r.LastIndex(); lo >= hi || hi > last+1 {
		return nil, fmt.Errorf("entries [%d, %d), the last is %d: %w", lo, hi, last, segment.ErrUnavailable)
	}
	seg, err := r.use(lo)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.release(seg)) }()
	r.mu.RLock()
	if lo >= seg.end {
		defer r.mu.RUnlock()
		return nil, fmt.Errorf("entry %d was truncated: %w", lo, segment.ErrUnavailable)
	}
	b, stop := r.chunkAt(seg, lo, 0, min(seg.end, hi), int64(maxBytes))
	b.narrow(seg.index, func(p *format.Point) bool { return p.Index < stop })
	r.mu.RUnlock()
	if err := b.read(nil); err != nil {
		return nil, err
	}
	frames, err = b.entries(lo, stop, maxBytes, 0, math.MaxInt64)
	if len(frames) > 0 {
		return frames, nil
	}
	return nil, err
}
