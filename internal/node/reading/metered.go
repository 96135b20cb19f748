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
// part of it until it is released, which a client that does not keep up puts off. So a
// client that has just come, or that did not take a chunk in time, is given little at once,
// and so is everybody where memory is short: copies of a few batches.
//
// What a client has not taken in time (Reader.Drop) leaves the memory that readers wait for, and
// counts among what all stalled clients hold: a reader never waits for one that takes nothing.
type metered struct {
	reads   *budget.Pool
	stalled *budget.Stalled
	sparing bool // the client is always given little, see Request.Little

	mu sync.Mutex // Next against Drop
	// passed is what the client was given since it has not taken something in time.
	passed int64
	taken  bool  // a chunk's part was taken, for the chunk being read or in rest
	room   int64 // so much was taken: runtime.ChunkRoom, or more for a chunk of large batches; at most all that reads has
	large  int64 // what the next chunk is known to take, if that is more
	// rest is the part of a chunk that was not given out yet; its parts lie in the
	// memory of whole.
	rest, whole Chunk

	// given is what the client holds: whoever has it may not get to giving it back when its client
	// goes.
	given charges
}

const (
	// littleBytes is what a client that may not keep up is given at once; a batch is never divided.
	littleBytes = 64 << 10
	// hiddenBytes is what a client seems to take that takes nothing: the window of its stream, and what gRPC
	// takes of a message before it holds up who sends it, are 64 KiB each where nobody has set them.
	hiddenBytes = 4 * littleBytes
)

// keepsUp reports whether the client has taken more than lies on the way to it.
func (f *metered) keepsUp() bool { return f.passed > hiddenBytes }

// little reports whether the client is to be given little: it asks for that, may not keep up, or memory is short.
func (f *metered) little() bool {
	return f.sparing || !f.keepsUp() || f.reads.Used() > f.reads.Size()/2
}

// most is how much of a chunk of so many bytes is read at once.
func (f *metered) most(bytes int) int {
	if f != nil && f.little() {
		return min(bytes, littleBytes)
	}
	return bytes
}

// take waits for the memory of a chunk if there is something to read.
func (f *metered) take(ctx context.Context, r *Reader) error {
	if f == nil || f.taken {
		return nil
	}
	if _, end, err := r.tail.Bounds(); err != nil || r.next >= end {
		return nil // it will wait for more, and hold nothing meanwhile
	}
	room := f.roomFor(max(runtime.ChunkRoom, f.large))
	if err := f.reads.Acquire(ctx, room); err != nil {
		return err
	}
	f.taken, f.room, f.large = true, room, 0
	return nil
}

// roomFor is what a chunk of so many bytes takes: one that is larger than all the memory takes all of it, so that it can
// be read at all.
func (f *metered) roomFor(bytes int64) int64 { return min(bytes, f.reads.Size()) }

func (f *metered) give() {
	if f != nil && f.taken {
		f.reads.Release(f.room)
		f.taken = false
	}
}

// shrink gives back what has been taken beyond so many bytes.
func (f *metered) shrink(bytes int64) {
	if bytes < f.room {
		f.reads.Release(f.room - bytes)
		f.room = bytes
	}
}

// fits takes what a chunk of large batches has more than a usual one. If that is not there it gives all back: the
// chunk is read again when there is room for it, and nobody waits for memory with some.
func (f *metered) fits(c Chunk) bool {
	more := f.roomFor(int64(c.Bytes)) - f.room
	if more <= 0 {
		return true
	}
	if f.reads.TryAcquire(more) {
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
	bytes = max(min(bytes, f.reads.Size()/2), 0)
	if bytes > 0 && !f.reads.TryAcquire(bytes) {
		return nil, false
	}
	return f.given.add(f.reads, bytes).release, true
}

// nextMetered returns a whole chunk, which has its part of the memory until it is
// released, or a copy of some of one.
func (r *Reader) nextMetered(ctx context.Context) (Chunk, error) {
	f := r.slow
	if len(f.rest.Parts) > 0 {
		return r.few()
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
			return r.again(ctx, c)
		}
		f.taken, f.room = true, runtime.ChunkRoom
	}
	if !f.fits(c) {
		return r.again(ctx, c)
	}
	if !f.little() {
		if c.shared {
			f.shrink(int64(c.Bytes))
		}
		c.Release = f.charged(c.Release)
		return c, nil
	}
	f.whole, f.rest = c, c
	return r.few()
}

// again reads a chunk once more when there is memory for it.
func (r *Reader) again(ctx context.Context, c Chunk) (Chunk, error) {
	r.slow.whole, r.slow.rest = c, c
	r.giveUpRest()
	return r.nextMetered(ctx)
}

// charged makes the memory that the reader has taken that of a chunk.
func (f *metered) charged(release func()) func() {
	f.taken = false
	charge := f.given.add(f.reads, f.room)
	return func() {
		release()
		charge.release()
	}
}

// few takes the next batches from rest, together no more than littleBytes, at least one. What
// is given is a copy, which counts for itself, so that clients that take nothing can be many. The rest is
// kept while there is memory for it. A batch that is most of its chunk is not copied.
func (r *Reader) few() (Chunk, error) {
	f := r.slow
	first, _, err := record.Split(f.rest.Parts[0])
	if err == nil && len(first) > littleBytes && (len(first) == f.rest.Bytes || !f.sparing && 2*len(first) > f.rest.Bytes) {
		c := f.rest
		c.Release = f.charged(f.whole.Release)
		f.whole, f.rest = Chunk{}, Chunk{}
		return c, nil
	}
	c, err := f.batches()
	if err != nil {
		return c, err
	}
	if len(f.rest.Parts) > 0 && !f.reads.Waiting() && f.reads.TryAcquire(int64(c.Bytes)) {
		c.Release = f.given.add(f.reads, int64(c.Bytes)).release
		return c, nil
	}
	r.giveUpRest()
	f.shrink(int64(c.Bytes))
	c.Release = f.charged(c.Release)
	return c, nil
}

// batches takes copies of the first batches out of rest.
func (f *metered) batches() (Chunk, error) {
	c := f.rest
	c.Parts, c.Bytes, c.Count = nil, 0, 0
	next := c.First
	for len(f.rest.Parts) > 0 && c.Bytes < littleBytes {
		batch, rest, err := record.Split(f.rest.Parts[0])
		if err != nil {
			return c, record.Refuse(record.Corrupt, "stored batch at offset %d: %v", next, err)
		}
		if c.Bytes > 0 && c.Bytes+len(batch) > littleBytes {
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
	f.rest.First, f.rest.Count, f.rest.Bytes = next, int(end-next), f.rest.Bytes-c.Bytes
	return copied(c), nil
}

// copied is a chunk in memory of its own.
func copied(c Chunk) Chunk {
	c.Parts = [][]byte{slices.Concat(c.Parts...)}
	c.Release = func() {}
	return c
}

// Drop notes that the client has not taken in time what the reader gave out last. What the reader holds
// besides is given up, and is read again when it is asked for. What the client holds is counted among what
// all stalled clients hold; where others need it, end is called, which ends the read. Drop may be called beside
// Next, and does nothing then, and again, which it needs where stalled clients hold too much.
func (r *Reader) Drop(end func()) {
	if r.slow != nil && r.slow.mu.TryLock() {
		defer r.slow.mu.Unlock()
		r.slow.passed = 0
		r.drop()
		r.slow.given.stall(r.slow.stalled, end)
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

// charges are what a client holds of the node's memory.
type charges struct {
	mu   sync.Mutex
	held map[*charge]struct{}
}

// charge is one thing that a client holds.
type charge struct {
	of    *charges
	bytes int64
	reads *budget.Pool  // that it is counted in, unless
	stall *budget.Stall // is not nil
}

// add makes bytes that were taken of reads a charge.
func (s *charges) add(reads *budget.Pool, bytes int64) *charge {
	c := &charge{of: s, bytes: bytes, reads: reads}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[*charge]struct{}{}
	}
	s.held[c] = struct{}{}
	return c
}

// release ends the charge. It may be called again.
func (c *charge) release() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if _, held := c.of.held[c]; !held {
		return
	}
	delete(c.of.held, c)
	if c.stall != nil {
		c.stall.Leave()
	} else {
		c.reads.Release(c.bytes)
	}
}

// stall counts what is held as that of a client which takes nothing, where there is room for it.
func (s *charges) stall(in *budget.Stalled, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.held {
		if c.stall == nil && c.bytes > 0 {
			if c.stall = in.Enter(c.bytes, end); c.stall != nil {
				c.reads.Release(c.bytes)
			}
		}
	}
}

// releaseAll ends all charges.
func (s *charges) releaseAll() {
	s.mu.Lock()
	var held []*charge
	for c := range s.held {
		held = append(held, c)
	}
	s.mu.Unlock()
	for _, c := range held {
		c.release()
	}
}
