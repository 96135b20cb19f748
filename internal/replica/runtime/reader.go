package runtime

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
)

// Reader reads committed entries in order, from memory if possible and otherwise from segments,
// one chunk ahead of the caller. It must be used by one goroutine at a time.
type Reader struct {
	readable *Readable
	next     record.Offset
	frames   []segment.Entry
	cursor   segment.Cursor
	// wantsStored is set if NextStored has been called.
	wantsStored bool
	// looked is the end of the segment whose key summary was examined last; 0: none was. Entries
	// behind it are not read ahead, since they may be skipped.
	looked record.Offset
	// ahead receives the chunk at next while the caller processes the previous one; nil if no read
	// is in progress. The read takes ChunkRoom of the node's memory for reads.
	ahead chan fetched
}

// leastAhead is the read size from which on chunks are read ahead: a caller that reads less at
// once may not want more.
const leastAhead = 128 << 10

// fetched is the result of a read of the tail or of segments.
type fetched struct {
	frames []segment.Entry
	memory *[]byte // memory of the payloads, if it is used by them alone
	err    error
}

// Next returns the entries that contain records from the reader's position up to until
// (exclusive), at least one and about maxBytes of them, and moves behind them. The first may
// begin before the position. It returns no frames and no error if there is nothing to read now.
func (r *Reader) Next(until record.Offset, maxBytes int) (Chunk, error) {
	start, end, err := r.readable.tail.Bounds()
	c := Chunk{Start: start, End: end}
	if err != nil {
		return c, err
	}
	if r.next < start {
		return c, r.trimmed(start)
	}
	until = min(until, end)
	if r.next >= until {
		return c, nil
	}
	got := r.fetch(until, maxBytes)
	if got.err != nil {
		return c, r.refuse(got.err, start)
	}
	c.Entries, c.memory = got.frames, got.memory
	last := &c.Entries[len(c.Entries)-1]
	r.next = last.First + record.Offset(last.Count)
	if r.looked > 0 {
		end = min(end, r.looked)
	}
	if r.cursor != nil && r.next < end && maxBytes >= leastAhead {
		r.readAhead(end, maxBytes)
	}
	return c, nil
}

// skipSegments bounds how many segments Skip skips, and skipBytes approximately how many bytes of
// their summaries it reads.
const (
	skipSegments = 64
	skipBytes    = 1 << 20
)

// Skip skips complete segments without wanted records according to their key summaries. It does not
// move beyond until, and skips no segment with an entry of the given time, in Unix milliseconds,
// or later; 0: any. It returns the position and the number of segments skipped, which is 0 if
// there is nothing to skip or ctx is done. Otherwise there may be more to skip.
func (r *Reader) Skip(ctx context.Context, q *segment.KeyQuery, until record.Offset, time int64) (to record.Offset, segments int) {
	start, end, err := r.readable.tail.Bounds()
	until = min(until, end, r.stored())
	before := q.Read
	for err == nil && segments < skipSegments && q.Read-before < skipBytes && ctx.Err() == nil && r.next >= start && r.next >= r.looked && r.next < until {
		s := r.readable.log.LookUpKeys(r.next, q)
		r.readable.keeper.readByKey(s.Unknown)
		if !s.Lacks || time > 0 && s.Time >= time {
			r.looked = cmp.Or(s.End, math.MaxInt64)
			break
		}
		r.Seek(min(s.End, until))
		segments++
	}
	return r.next, segments
}

// NextStored is like Next for callers that let the kernel send batches from files, see
// segment.StoredCursor. It returns false if Next must be called instead.
func (r *Reader) NextStored(until record.Offset, maxBytes int) (run segment.Stored, c Chunk, ok bool) {
	r.wantsStored = true
	start, end, err := r.readable.tail.Bounds()
	c.Start, c.End = start, end
	stored, ok := r.cursor.(segment.StoredCursor)
	if until = min(until, end, r.stored()); !ok || err != nil || r.next < start || r.next >= until || r.ahead != nil || !stored.Verified() {
		return run, c, false
	}
	run, ok = stored.NextStored(until, maxBytes)
	if !ok {
		return run, c, false
	}
	for len(run.Batches) > 0 && run.Batches[0].End <= r.next {
		run.Batches = run.Batches[1:]
	}
	if len(run.Batches) == 0 {
		run.Release()
		return run, c, false
	}
	r.next = run.Batches[len(run.Batches)-1].End
	return run, c, true
}

// Seek moves the reader, and releases what it has read ahead.
func (r *Reader) Seek(to record.Offset) {
	r.Close()
	r.next, r.looked = to, 0
}

// Close waits for a read in progress and releases the segment.
func (r *Reader) Close() {
	if r.ahead != nil {
		got := r.awaitAhead()
		if got.memory != nil {
			chunkMemory.Put(got.memory)
		}
	}
	r.closeCursor()
}

func (r *Reader) awaitAhead() fetched {
	got := <-r.ahead
	r.ahead = nil
	r.readable.reads.Release(ChunkRoom)
	return got
}

func (r *Reader) fetch(until record.Offset, maxBytes int) fetched {
	if r.ahead != nil {
		return r.awaitAhead()
	}
	frames, ok := r.readable.tail.Read(r.frames[:0], r.next, until, maxBytes)
	if ok {
		r.closeCursor()
		r.frames = frames
		return fetched{frames: frames}
	}
	if r.cursor == nil {
		cursor, err := r.readable.log.NewCursor(r.next)
		if err != nil {
			return fetched{err: err}
		}
		r.cursor = cursor
	}
	return r.readCursor(min(until, r.stored()), maxBytes)
}

// stored returns the offset up to which committed records are read from segments: what follows is
// in memory, and may replace what the segments have.
func (r *Reader) stored() record.Offset {
	_, first := r.readable.tail.InMemory()
	return first
}

// readCursor reads the next frames with records from the cursor.
func (r *Reader) readCursor(until record.Offset, maxBytes int) fetched {
	memory := chunkMemory.Get().(*[]byte)
	for {
		r.cursor.Lend(*memory)
		frames, err := r.cursor.Next(until, maxBytes)
		if err == nil && len(frames) == 0 {
			err = errCommittedMissing
		}
		if err != nil {
			return fetched{err: err}
		}
		kept := frames[:0]
		for _, f := range frames {
			if f.Count > 0 && f.First+record.Offset(f.Count) > r.next {
				kept = append(kept, f)
			}
		}
		if len(kept) > 0 {
			return fetched{frames: kept, memory: memory}
		}
	}
}

// errCommittedMissing means that the stored log ends before its committed end.
var errCommittedMissing = errors.New("the segments end before the committed end")

func (r *Reader) readAhead(until record.Offset, maxBytes int) {
	if stored, ok := r.cursor.(segment.StoredCursor); ok && r.wantsStored && stored.Verified() {
		return
	}
	if _, ok := r.readable.tail.Read(nil, r.next, r.next+1, 0); ok {
		return // the next entry is in memory
	}
	if reads := r.readable.reads; reads.Used() > reads.Size()/2 || !reads.TryAcquire(ChunkRoom) {
		return // leave the memory to others
	}
	until = min(until, r.stored())
	ahead := make(chan fetched, 1)
	r.ahead = ahead
	go func() { ahead <- r.readCursor(until, maxBytes) }()
}

func (r *Reader) closeCursor() {
	if r.cursor != nil {
		r.cursor.Close()
		r.cursor = nil
	}
}

func (r *Reader) refuse(err error, start record.Offset) error {
	var corrupt *segment.CorruptError
	switch {
	case errors.As(err, &corrupt):
		r.readable.keeper.damaged(err)
		r.readable.logger.Error("stored bytes are corrupt; they are kept and not served", "offset", r.next,
			"file", corrupt.File, "position", corrupt.Position, "detail", corrupt.Detail)
		return record.Refuse(record.Corrupt, "the stored bytes at offset %d do not match their checksum: %v", r.next, err)
	case errors.Is(err, segment.ErrTrimmed):
		if now, _, gone := r.readable.tail.Bounds(); gone == nil && now > start {
			start = now
		}
		return r.trimmed(start)
	}
	return record.Refuse(record.StorageFailed, "read at offset %d: %v", r.next, err)
}

func (r *Reader) trimmed(start record.Offset) *record.Refusal {
	return tail.RefuseTrimmed(r.readable.tail, r.next, start)
}

// Chunk is a run of committed entries. The frames are valid until the next call of the reader
// that returned them; their payloads stay valid until Release.
type Chunk struct {
	Entries    []segment.Entry
	Start, End record.Offset // the readable range when the chunk was read

	memory *[]byte
}

// Stored reports whether the chunk was read from segments rather than from memory.
func (c *Chunk) Stored() bool { return c.memory != nil }

// Release releases the memory of the payloads if it belongs to this chunk alone. The payloads
// must not be used afterwards. It may be called at most once. A chunk that is never released is
// garbage collected.
func (c *Chunk) Release() {
	if c.memory != nil {
		chunkMemory.Put(c.memory)
		c.memory = nil
	}
}

// chunkMemory is a pool of buffers for chunks read from disk. In long reads, clearing new memory
// for each chunk would take a seventh of the time.
var chunkMemory = sync.Pool{New: func() any {
	b := make([]byte, ChunkRoom)
	return &b
}}

// ChunkRoom is the size of a chunk of the usual 1 MiB that ends with a whole frame. It is what a
// chunk takes of the node's memory for reads.
const ChunkRoom = 1<<20 + 256<<10
