package reading

import (
	"context"
	"slices"
	"sync"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
)

// metered is how a metered reader uses the node's memory for reads. A chunk takes its
// part of it until it is released, which a client that does not keep up puts off. So
// no such client may hold much when memory is short: it is given copies of slices of
// a chunk, one at a time, and if it does not take the next one soon (Reader.Drop)
// the chunk is given up and read again later.
type metered struct {
	reads *budget.Pool

	mu    sync.Mutex // Next against Drop
	taken bool       // a chunk's part, for the chunk being read or in rest
	// rest is the part of a chunk that was not given out yet; its parts lie in the
	// memory of whole.
	rest, whole Chunk
	// settle gives back the part of the chunk given out last, if that was whole:
	// whoever has it may not get to that when its client goes.
	settle func()
}

// sliceBytes is what a slow client is given at once; a batch is never divided.
const sliceBytes = 32 << 10

// take waits for the memory of a chunk if there is something to read.
func (f *metered) take(ctx context.Context, r *Reader) error {
	if f == nil || f.taken {
		return nil
	}
	if _, end, err := r.tail.Bounds(); err != nil || r.next >= end {
		return nil // it will wait for more, and hold nothing meanwhile
	}
	if err := f.reads.Acquire(ctx, runtime.ChunkRoom); err != nil {
		return err
	}
	f.taken = true
	return nil
}

func (f *metered) give() {
	if f != nil && f.taken {
		f.taken = false
		f.reads.Release(runtime.ChunkRoom)
	}
}

// short reports whether memory is: chunks that leave for clients may take half.
func (f *metered) short() bool { return f.reads.Used() > f.reads.Size()/2 }

// nextMetered returns a whole chunk, which has its part of the memory until it is
// released, or a copy of a slice of one.
func (r *Reader) nextMetered(ctx context.Context) (Chunk, error) {
	f := r.slow
	if len(f.rest.Parts) > 0 {
		return r.slice()
	}
	c, err := r.nextChunk(ctx)
	if err != nil {
		return c, err
	}
	if len(c.Stored.Batches) > 0 {
		f.give()
		return c, nil // nothing of it is in memory
	}
	if !f.taken {
		// It came while nothing was there to be read; it is counted all the same.
		if !f.reads.TryAcquire(runtime.ChunkRoom) {
			return copied(c), nil
		}
		f.taken = true
	}
	if !f.short() {
		c.Release = r.charged(c.Release)
		return c, nil
	}
	f.whole, f.rest = c, c
	return r.slice()
}

// charged makes the part of the memory that the reader has taken that of a chunk.
func (r *Reader) charged(release func()) func() {
	settle := sync.OnceFunc(func() { r.slow.reads.Release(runtime.ChunkRoom) })
	r.slow.taken, r.slow.settle = false, settle
	return func() {
		release()
		settle()
	}
}

// Wanted reports whether others wait for memory that the reader may hold.
func (r *Reader) Wanted() bool { return r.slow != nil && r.slow.reads.Waiting() }

// slice takes the next batches from rest. Where one is larger than a slice, the client
// gets all of rest, which keeps its part of the memory: only so are large batches
// bounded.
func (r *Reader) slice() (Chunk, error) {
	f := r.slow
	if first, _, err := record.Split(f.rest.Parts[0]); err == nil && len(first) > sliceBytes {
		c := f.whole
		rest := f.rest
		rest.Release = r.charged(c.Release)
		f.whole, f.rest = Chunk{}, Chunk{}
		return rest, nil
	}
	c := f.rest
	c.Parts, c.Bytes, c.Count = nil, 0, 0
	next := c.First
	for len(f.rest.Parts) > 0 && c.Bytes < sliceBytes {
		batch, rest, err := record.Split(f.rest.Parts[0])
		if err != nil {
			return c, record.Refuse(record.Corrupt, "stored batch at offset %d: %v", next, err)
		}
		if c.Bytes > 0 && c.Bytes+len(batch) > sliceBytes {
			break
		}
		c.Parts = append(c.Parts, batch)
		c.Bytes += len(batch)
		next = batch.BaseOffset() + record.Offset(batch.Count())
		if f.rest.Parts[0] = rest; len(rest) == 0 {
			f.rest.Parts = f.rest.Parts[1:]
		}
	}
	end := f.rest.First + record.Offset(f.rest.Count)
	next = min(next, end)
	c.Count = int(next - c.First)
	f.rest.First, f.rest.Count = next, int(end-next)
	c = copied(c)
	if len(f.rest.Parts) == 0 {
		f.whole.Release()
		f.whole, f.rest = Chunk{}, Chunk{}
		f.give()
	}
	return c, nil
}

// copied is a chunk in memory of its own.
func copied(c Chunk) Chunk {
	c.Parts = [][]byte{slices.Concat(c.Parts...)}
	c.Release = func() {}
	return c
}

// Drop gives up what the reader holds besides the chunk that it gave out last; it is
// read again when it is asked for. It may be called beside Next, and does nothing
// then.
func (r *Reader) Drop() {
	if r.slow != nil && r.slow.mu.TryLock() {
		defer r.slow.mu.Unlock()
		r.drop()
	}
}

func (r *Reader) drop() {
	f := r.slow
	if len(f.rest.Parts) > 0 {
		r.bytes -= int64(remaining(f.rest.Parts))
		r.next, r.done = f.rest.First, false
		f.whole.Release()
		f.whole, f.rest = Chunk{}, Chunk{}
	}
	f.give()
	r.reader.Seek(r.next)
}

func remaining(parts [][]byte) (bytes int) {
	for _, p := range parts {
		bytes += len(p)
	}
	return bytes
}
