package store

import (
	"sync"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

const (
	// headBytes is how many bytes of a frame are read to find its batches.
	headBytes = 4 << 10
	// leastStored is the default of Options.LeastStored: the average batch size in bytes that makes
	// a system call of its own worthwhile. Smaller batches are read many at once.
	leastStored = 32 << 10
)

// verified is the part of a segment that has matched its checksums since the log was opened. It
// is one range, since segments are read from one end to the other.
type verified struct {
	mu         sync.Mutex
	begin, end int64
}

// add adds a range. A range that does not touch the current one replaces it if it is longer.
func (v *verified) add(begin, end int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case begin <= v.end && end >= v.begin && v.begin < v.end:
		v.begin, v.end = min(v.begin, begin), max(v.end, end)
	case end-begin > v.end-v.begin:
		v.begin, v.end = begin, end
	}
}

func (v *verified) clear() {
	v.mu.Lock()
	v.begin, v.end = 0, 0
	v.mu.Unlock()
}

// through returns the end of the verified range if it contains position, and 0 otherwise.
func (v *verified) through(position int64) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if position < v.begin || position >= v.end {
		return 0
	}
	return v.end
}

// Verified implements segment.StoredCursor.
func (c *cursor) Verified() bool {
	return c.segment != nil && c.position > 0 && c.segment.verified.through(c.position) > 0
}

// NextStored implements segment.StoredCursor.
func (c *cursor) NextStored(limit record.Offset, maxBytes int) (run segment.Stored, ok bool) {
	b, stop, ok, err := c.chunk(limit, maxBytes)
	if err != nil || !ok || b.place != c.index {
		return run, false // Next will return the error
	}
	seg := b.segment
	end := min(b.end, seg.verified.through(b.begin))
	index, position := c.index, b.begin
	if c.head == nil {
		c.head = make([]byte, headBytes)
	}
	for index < stop && position < end {
		n, _ := b.file.ReadAt(c.head, position) // a short read yields no valid header
		h, err := format.ParseFrameHeader(c.head[:n], position, b.salt)
		if err != nil || position+h.Size() > end {
			break
		}
		if h.Kind == format.EntryFrame {
			if h.Index != index || h.First >= limit {
				break
			}
			if h.Count > 0 {
				all, ok := batchesOf(c.head[format.FrameHeaderSize:n], &h, position, c.from, c.reader.Options.LeastStored)
				if !ok {
					break
				}
				run.Batches = append(run.Batches, all...)
			}
			index++
		}
		position += h.Size()
	}
	if len(run.Batches) == 0 || c.reader.useSegment(seg) != nil {
		return run, false
	}
	seg.sent.Store(true) // before any byte is sent, so that the file is not recycled
	c.index, c.position = index, position
	run.File, run.Distrust = b.file, seg.verified.clear
	run.Release = func() { _ = c.reader.release(seg) } // see Close
	return run, true
}

// batchesOf returns the positions of the batches that end beyond the offset from, in the entry at
// position whose payload begins with head. ok is false if the batches have less than least bytes on
// average.
func batchesOf(head []byte, h *format.FrameHeader, position int64, from record.Offset, least int) (all []segment.StoredBatch, ok bool) {
	e, err := record.ParseEntryHead(head, int(h.Length))
	if err != nil || int(h.Length) < least*e.Batches {
		return nil, false
	}
	for p := range e.Places {
		if p.End > from {
			all = append(all, segment.StoredBatch{Position: position + format.FrameHeaderSize + p.At, Size: p.Size, End: p.End})
		}
	}
	return all, true
}
