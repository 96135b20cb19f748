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
//
// Clients that have taken their last chunk in time have a part of the memory of their
// own: in one line with thousands that take nothing they would wait as long as those.
type metered struct {
	keeping, slow *budget.Pool // of clients that keep up, and of all others

	mu sync.Mutex // Next against Drop
	// keepsUp: a chunk was given out, and Drop has not been called since.
	keepsUp bool
	taken   *budget.Pool // of which a chunk's part was taken, for the chunk being read or in rest; nil: none
	room    int64        // so much was taken: runtime.ChunkRoom, or more for a chunk of large batches
	large   int64        // what the next chunk is known to take, if that is more
	newest  *budget.Pool // reads when the newest chunk was asked for
	// rest is the part of a chunk that was not given out yet; its parts lie in the
	// memory of whole.
	rest, whole Chunk
	// settle gives back the part of the chunk given out last, if that was whole:
	// whoever has it may not get to that when its client goes.
	settle func()
	// settleGrown gives back what the newest selection takes beside its chunk.
	settleGrown func()
}

// sliceBytes is what a slow client is given at once; a batch is never divided.
const sliceBytes = 32 << 10

// take waits for the memory of a chunk if there is something to read.
func (f *metered) take(ctx context.Context, r *Reader) error {
	if f == nil || f.taken != nil {
		return nil
	}
	if _, end, err := r.tail.Bounds(); err != nil || r.next >= end {
		return nil // it will wait for more, and hold nothing meanwhile
	}
	room := max(runtime.ChunkRoom, f.large)
	if err := f.reads().Acquire(ctx, room); err != nil {
		return err
	}
	f.taken, f.room, f.large = f.reads(), room, 0
	return nil
}

func (f *metered) give() {
	if f != nil && f.taken != nil {
		f.taken.Release(f.room)
		f.taken = nil
	}
}

// fits takes what a chunk of large batches has more than a usual one. If that is not there it gives all back: the
// chunk is read again when there is room for it, and nobody waits for memory with some.
func (f *metered) fits(c Chunk) bool {
	more := int64(c.Bytes) - f.room
	if more <= 0 {
		return true
	}
	if f.taken.TryAcquire(more) {
		f.room += more
		return true
	}
	f.give()
	f.large = int64(c.Bytes)
	return false
}

// grow counts bytes that something takes beside its chunk until release. It reports false if they are not there. One that
// takes more than half of all is counted as half, so that it can be read at all.
func (f *metered) grow(bytes int64) (release func(), ok bool) {
	reads := f.newest
	if bytes = min(bytes, reads.Size()/2); bytes > 0 && !reads.TryAcquire(bytes) {
		return nil, false
	}
	return sync.OnceFunc(func() { reads.Release(max(bytes, 0)) }), true
}

// reads is the part of the memory that the client has.
func (f *metered) reads() *budget.Pool {
	if f.keepsUp {
		return f.keeping
	}
	return f.slow
}

// short reports whether memory is: whole chunks may take half of it, and those of clients
// that have not shown that they keep up an eighth.
func (f *metered) short() bool {
	if f.taken == f.slow {
		return f.taken.Used() > f.taken.Size()/8
	}
	return f.taken.Used() > f.taken.Size()/2
}

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
	if f.taken == nil {
		// It came while nothing was there to be read; it is counted all the same.
		switch {
		case f.reads().TryAcquire(runtime.ChunkRoom):
			f.taken, f.room = f.reads(), runtime.ChunkRoom
		case c.Bytes <= sliceBytes:
			return copied(c), nil
		default:
			return r.again(ctx, c)
		}
	}
	if !f.fits(c) {
		return r.again(ctx, c)
	}
	if !f.short() {
		c.Release = f.charged(c.Release, f.room)
		return c, nil
	}
	f.whole, f.rest = c, c
	return r.slice()
}

// again reads a chunk once more when there is memory for it.
func (r *Reader) again(ctx context.Context, c Chunk) (Chunk, error) {
	r.slow.whole, r.slow.rest = c, c
	r.giveUpRest()
	return r.nextMetered(ctx)
}

// charged makes so much of the memory that the reader has taken that of a chunk.
func (f *metered) charged(release func(), bytes int64) func() {
	reads := f.taken
	settle := sync.OnceFunc(func() { reads.Release(bytes) })
	f.taken, f.settle = nil, settle
	return func() {
		release()
		settle()
	}
}

// Wanted reports whether others wait for memory that the reader may hold.
func (r *Reader) Wanted() bool { return r.slow != nil && r.slow.reads().Waiting() }

// slice takes the next batches from rest. One that is larger than a slice is counted until
// the client has taken it: only so are large batches bounded. A client that keeps up gets
// all of rest then, and keeps the memory of a chunk; others get a copy of the batch and
// keep no more than that, so that they can be many.
func (r *Reader) slice() (Chunk, error) {
	f := r.slow
	first, behind, err := record.Split(f.rest.Parts[0])
	if err == nil && len(first) > sliceBytes {
		c := f.rest
		if f.keepsUp || len(first) > runtime.ChunkRoom/4 {
			c.Release = f.charged(f.whole.Release, f.room)
			f.whole, f.rest = Chunk{}, Chunk{}
			return c, nil
		}
		c = f.batch(first, behind)
		r.giveUpRest()
		return c, nil
	}
	return f.batches()
}

// batches takes copies of the first batches out of rest, together no more than a slice.
func (f *metered) batches() (Chunk, error) {
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

// batch takes a copy of the first batch out of rest, and keeps no more memory than for it.
func (f *metered) batch(first record.Batch, behind []byte) Chunk {
	c := f.rest
	next := min(first.BaseOffset()+record.Offset(first.Count()), c.First+record.Offset(c.Count))
	c.Parts, c.Bytes, c.Count = [][]byte{first}, len(first), int(next-c.First)
	f.rest.First, f.rest.Count = next, f.rest.Count-c.Count
	if f.rest.Parts[0] = behind; len(behind) == 0 {
		f.rest.Parts = f.rest.Parts[1:]
	}
	f.taken.Release(f.room - int64(len(first)))
	c = copied(c)
	c.Release = f.charged(c.Release, int64(len(first)))
	return c
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
		r.slow.keepsUp = false
		r.drop()
	}
}

func (r *Reader) drop() {
	r.giveUpRest()
	r.slow.give()
	r.reader.Seek(r.next)
}

// giveUpRest has what was not given out of a chunk read again.
func (r *Reader) giveUpRest() {
	f := r.slow
	if len(f.whole.Parts) == 0 {
		return
	}
	if len(f.rest.Parts) > 0 {
		r.bytes -= int64(remaining(f.rest.Parts))
		r.next, r.done = f.rest.First, false
		r.reader.Seek(r.next)
	}
	f.whole.Release()
	f.whole, f.rest = Chunk{}, Chunk{}
}

func remaining(parts [][]byte) (bytes int) {
	for _, p := range parts {
		bytes += len(p)
	}
	return bytes
}
