package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/record"
)

// backlog is the records that a producer has accepted and that have no answer. Unless stated
// otherwise, the mutex is held in its methods.
type backlog struct {
	*job
	session *producerSession

	forming  *request   // accepts records; nil if there are none
	queue    []*request // full, but not sent yet; oldest first
	window   window
	buffered int           // bytes of all requests above
	room     chan struct{} // closed when buffered decreases; nil if nothing waits for it
	ended    *Error        // set if nothing is accepted any more
	returning
	counts counts

	// Memory for batches: that of answered requests, and how much to allocate if there is none.
	spare      sync.Pool // of *[]byte
	closedSize atomic.Int64
}

func newBacklog(j *job, s *producerSession) *backlog {
	return &backlog{job: j, session: s, window: newWindow(j.options.requests, j.options.bytes)}
}

// add encodes a record into the forming request and returns that request and the index of the
// record in it. It waits while the buffer is full.
func (b *backlog) add(ctx context.Context, r *Record, waits bool, call func(int64, error)) (*request, int, error) {
	size := record.MaxEncodedSize(r.Key, r.Value, r.Headers)
	if err := b.awaitRoom(ctx, size); err != nil {
		return nil, 0, err
	}
	q := b.forming
	if q != nil && (q.size+size > b.options.requestBytes || q.count == record.MaxBatchRecords) {
		b.queue = append(b.queue, q)
		q, b.forming = nil, nil
	}
	if q == nil {
		q = b.newRequest()
	}
	if err := q.add(r); err != nil {
		return nil, 0, fromRecord(err)
	}
	index := q.count - 1
	if waits {
		q.waiters++
	}
	if call != nil {
		q.callbacks = append(q.callbacks, callback{index, call})
	}
	before := q.size
	if index == 0 {
		b.forming, before = q, 0
	}
	q.size = q.builder.Size()
	b.buffered += q.size - before
	b.formed.Store(int64(q.count))
	return q, index, nil
}

// addRequest adds a complete request behind what was accepted before. It waits while the buffer
// is full.
func (b *backlog) addRequest(ctx context.Context, q *request) error {
	if err := b.awaitRoom(ctx, q.size); err != nil {
		return err
	}
	if b.forming != nil {
		b.queue = append(b.queue, b.forming)
		b.forming = nil
		b.formed.Store(0)
	}
	b.queue = append(b.queue, q)
	b.buffered += q.size
	return nil
}

// awaitRoom waits until size more bytes may be accepted. It releases the mutex while it waits.
func (b *backlog) awaitRoom(ctx context.Context, size int) error {
	for {
		switch {
		case b.ended != nil:
			return b.ended
		case ctx.Err() != nil:
			return cancelled(ctx, NotDone)
		case b.buffered == 0 || b.buffered+size <= b.options.bufferBytes:
			return nil
		}
		if b.room == nil {
			b.room = make(chan struct{})
		}
		room := b.room
		b.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		b.mu.Lock()
	}
}

// release returns the buffer space of settled requests.
func (b *backlog) release(bytes int) {
	b.buffered -= bytes
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}

// candidate returns the oldest request that is not in the window, or nil.
func (b *backlog) candidate() *request {
	if len(b.queue) > 0 {
		return b.queue[0]
	}
	return b.forming
}

// oldest returns the request that has waited longest for its answer, or nil.
func (b *backlog) oldest() *request {
	for _, r := range b.window.flight {
		if r.state != failed {
			return r
		}
	}
	return b.candidate()
}

// newest returns the request that was accepted last, or nil.
func (b *backlog) newest() *request {
	switch {
	case b.forming != nil:
		return b.forming
	case len(b.queue) > 0:
		return b.queue[len(b.queue)-1]
	case len(b.window.flight) > 0:
		return b.window.flight[len(b.window.flight)-1]
	}
	return nil
}

// closeBatch moves the candidate to the window and numbers its records.
func (b *backlog) closeBatch(r *request) {
	if r == b.forming {
		b.forming = nil
		b.formed.Store(0)
		b.woken, b.early = 0, 0
	} else {
		b.queue[0] = nil
		b.queue = b.queue[1:]
	}
	r.state = inFlight
	b.session.number(r)
	b.window.push(r)
	b.closedSize.Store(int64(r.size))
}

// leave removes the oldest request in flight from the window.
func (b *backlog) leave(now time.Time) {
	if r := b.window.flight[0]; r.state != failed && r.sends == 1 {
		b.window.answered(now.Sub(r.sent), now)
	}
	r := b.window.pop()
	b.session.lastSign = now
	if r.state != failed {
		b.woke(r.waiters)
		b.release(r.size)
	}
	b.recycle(r)
}

// doubtful reports whether anything in flight may be in the log already. It locks the mutex.
func (b *backlog) doubtful() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.window.ambiguous()
}

// stop makes the producer accept no more records. It locks the mutex.
func (b *backlog) stop(err *Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopLocked(err)
}

func (b *backlog) stopLocked(err *Error) {
	if b.ended == nil {
		ended := *err
		ended.Outcome = NotDone
		b.ended = &ended
	}
}

// fail settles everything that has no result: the request that the interruption concerns, or else
// the oldest, with its error, and the others as behind it. Requests on a stream that continues
// stay in the window until their own refusals arrive. It locks the mutex.
func (b *backlog) fail(i interruption) {
	b.mu.Lock()
	failed := b.window.fail()
	failed = append(failed, b.queue...)
	if b.forming != nil {
		failed = append(failed, b.forming)
	}
	b.queue, b.forming = nil, nil
	if b.options.endOnFailure || i.err.Is(ErrLogReplaced) || i.err.Is(ErrClosed) {
		b.stopLocked(i.err)
	}
	b.formed.Store(0)
	b.session.beginEpoch(i.err.Epoch)
	for _, r := range failed {
		b.release(r.size)
		b.counts.failed += uint64(r.count)
	}
	b.mu.Unlock()

	for n, r := range failed {
		if r == i.refused || n == 0 && i.refused == nil {
			first := *i.err
			first.Outcome = r.outcome
			r.settle(0, &first)
		} else {
			r.settle(0, behind(i.err, r.outcome))
		}
	}
}

// place returns the position in its session of the record at index. It locks the mutex.
func (b *backlog) place(r *request, index int) SessionPosition {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := SessionPosition{LogID: b.logID, Session: r.session, Epoch: r.epoch, Next: r.first}
	if r.state == accepted {
		at = b.position(r)
	}
	at.Next += uint64(index)
	return at
}

// position returns the position of the first record of a request that is still open, or,
// for nil, of the next record after the queue. It is valid unless something fails before the
// request is closed; then the request fails, too.
func (b *backlog) position(r *request) SessionPosition {
	at := b.session.position()
	for _, q := range b.queue {
		if q == r {
			break
		}
		at.Next += uint64(q.count)
	}
	return at
}

// newRequest returns a new request, in spare memory if there is some. The mutex need not be held.
func (b *backlog) newRequest() *request {
	now := time.Now()
	q := &request{backlog: b, accepted: now, timestamp: now.UnixMilli(), done: make(chan struct{})}
	if memory, ok := b.spare.Get().(*[]byte); ok {
		q.builder.Reset(*memory)
	} else {
		q.builder.Reset(make([]byte, 0, b.closedSize.Load()))
	}
	return q
}

// recycle keeps the memory of a request that was answered on the only stream on which it was
// sent: the answer proves that the transport has no part of it left to write. After a broken
// stream nothing proves that.
func (b *backlog) recycle(q *request) {
	if q.sends != 1 || q.outcome != NotDone || cap(q.batch) > 2*b.options.requestBytes {
		return
	}
	memory := []byte(q.batch[:0])
	q.batch = nil
	b.spare.Put(&memory)
}
