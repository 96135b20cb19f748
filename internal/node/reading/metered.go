package reading

import (
	"context"
	"slices"
	"sync"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
)

// metered accounts for the node's memory for reads that a metered reader uses. A chunk holds its
// memory until it is released, and a slow client delays the release. So a new client, a client that
// did not accept a chunk in time, and every client when memory is short get small chunks: copies of
// a few batches.
//
// Memory of a chunk that the client did not accept in time (Reader.Drop) moves from the pool that
// readers wait for to the pool of stalled clients, so a reader never waits for a stalled client.
type metered struct {
	reads   *budget.Pool
	stalled *budget.Stalled
	turns   *Turns // in which batches are inflated
	sparing bool   // the client is always given little, see Request.Little

	mu sync.Mutex // Next against Drop
	// passed counts the bytes that the client was given since it last failed to accept a chunk in
	// time.
	passed int64
	taken  bool  // a chunk's part was taken, for the chunk being read or in rest
	room   int64 // bytes acquired: runtime.ChunkRoom, or more for a chunk of large batches; at most the size of reads
	large  int64 // size of the next chunk if it is known to be larger
	// rest is the part of a chunk that was not returned yet. It refers to the memory of whole.
	rest, whole Chunk

	// given is the memory that the client holds. The server may not release it if the client
	// leaves.
	given charges
	// inflations are those of given that are inflated batches.
	inflations inflations
	// payments are for what those have inflated to.
	payments payments
	// left is what Chunk.Records has left of the newest chunk, until that is paid for.
	left left
}

// left is the rest of a chunk. Of no bytes, there is none.
type left struct {
	from  record.Offset
	bytes int
}

func newMetered(reads *budget.Pool, stalled *budget.Stalled, turns *Turns) *metered {
	return &metered{reads: reads, stalled: stalled, turns: turns, payments: payments{excess: turns.excess, holder: turns.holder}}
}

const (
	// littleBytes is the size of a small chunk. A batch is never divided.
	littleBytes = 64 << 10
	// hiddenBytes is what a stalled client may appear to accept: by default, the window of its
	// stream and the bytes of a message that gRPC buffers before it blocks the sender are 64 KiB
	// each.
	hiddenBytes = 4 * littleBytes
)

// keepsUp reports whether the client has accepted more bytes than may be buffered on the way to it.
func (f *metered) keepsUp() bool { return f.passed > hiddenBytes }

// little reports whether the client gets small chunks: it asks for them, may be slow, or memory is
// short.
func (f *metered) little() bool {
	return f.sparing || !f.keepsUp() || f.reads.Used() > f.reads.Size()/2
}

// most returns how many of the given bytes to read at once.
func (f *metered) most(bytes int) int {
	if f != nil && f.little() {
		return min(bytes, littleBytes)
	}
	return bytes
}

// take acquires memory for a chunk if there is something to read. It waits until the memory is
// available.
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

// roomFor returns the memory for a chunk of the given size. A chunk larger than the whole pool gets
// the whole pool, so that it can be read at all.
func (f *metered) roomFor(bytes int64) int64 { return min(bytes, f.reads.Size()) }

func (f *metered) give() {
	if f != nil && f.taken {
		f.reads.Release(f.room)
		f.taken = false
	}
}

// shrink releases the acquired memory beyond the given size.
func (f *metered) shrink(bytes int64) {
	if bytes < f.room {
		f.reads.Release(f.room - bytes)
		f.room = bytes
	}
}

// fits acquires the memory by which a chunk of large batches exceeds a usual chunk. If it is not
// available, fits releases all memory, so that no reader waits for memory while it holds some. The
// chunk is read again when there is memory for it.
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

// grow acquires memory for data beside a chunk, until release. It returns false if the memory is
// not available. It acquires at most half of the pool, so that larger data can be read at all.
func (f *metered) grow(bytes int64) (release func(), ok bool) {
	bytes = max(min(bytes, f.reads.Size()/2), 0)
	if bytes > 0 && !f.reads.TryAcquire(bytes) {
		return nil, false
	}
	return f.given.add(f.reads, bytes).release, true
}

// nextMetered returns a whole chunk, which holds its memory until it is released, or a copy of part
// of a chunk.
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

// pay waits, without a chunk in memory, until what was left of the newest chunk is paid for, or what it was inflated to.
func (r *Reader) pay(ctx context.Context) error {
	f := r.slow
	pays := f.payments.next()
	if !pays && f.left.bytes == 0 {
		return nil
	}
	f.mu.Lock()
	r.drop()
	r.takeBack()
	f.mu.Unlock()
	if !pays {
		return nil
	}
	return f.payments.pay(ctx)
}

// takeBack moves the reader back to what was left of the newest chunk, which is not given to the client any more.
func (r *Reader) takeBack() {
	f := r.slow
	if f.left.bytes == 0 {
		return
	}
	r.bytes -= int64(f.left.bytes)
	r.next, r.done = f.left.from, false
	r.reader.Seek(r.next)
	f.left = left{}
}

// again reads a chunk once more when there is memory for it.
func (r *Reader) again(ctx context.Context, c Chunk) (Chunk, error) {
	r.slow.whole, r.slow.rest = c, c
	r.giveUpRest()
	return r.nextMetered(ctx)
}

// charged transfers the memory that the reader has acquired to a chunk.
func (f *metered) charged(release func()) func() {
	f.taken = false
	charge := f.given.add(f.reads, f.room)
	return func() {
		release()
		charge.release()
	}
}

// few returns a copy of the next batches of rest: at most littleBytes, but at least one batch. The
// copy has its own memory, so that many stalled clients fit into the pool. The rest is kept while
// there is memory for it. A batch that is most of its chunk is not copied.
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

// batches removes the first batches from rest and returns a copy of them.
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

// copied returns a copy of a chunk in its own memory.
func copied(c Chunk) Chunk {
	c.Parts = [][]byte{slices.Concat(c.Parts...)}
	c.Release = func() {}
	return c
}

// Drop records that the client did not accept the newest chunk in time. It releases everything else
// that the reader holds; the reader reads it again later. The memory that the client holds moves to
// the pool of stalled clients. If others need that memory, end is called and must end the read.
// Drop may be called repeatedly, and concurrently with Next, in which case it does nothing. Repeat
// it while the pool of stalled clients is full.
func (r *Reader) Drop(end func()) {
	if r.slow != nil && r.slow.mu.TryLock() {
		defer r.slow.mu.Unlock()
		r.slow.passed = 0
		r.drop()
		r.slow.given.stall(r.slow.stalled, end)
	}
}

// Unread releases everything that the reader holds beside what its client has; the reader reads it again later. It is
// called before a wait, between two calls of Next.
func (r *Reader) Unread() {
	if r.slow != nil {
		r.slow.mu.Lock()
		defer r.slow.mu.Unlock()
		r.drop()
	}
}

func (r *Reader) drop() {
	r.giveUpRest()
	r.slow.give()
	r.reader.Seek(r.next)
}

// giveUpRest releases the part of a chunk that was not returned, and moves the reader back to it.
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

// stall moves the charges to the pool of stalled clients, as far as it has room.
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
