package client

import (
	"context"
	"time"

	"strandline.dev/internal/record"
)

// accept encodes a record into the request that is forming and returns that
// request and the record's place in it. It waits while the buffer is full. The
// mutex is held for the copying only: a microsecond for a record of 2 KiB.
func (p *Producer) accept(ctx context.Context, r *Record, waits bool, call func(int64, error)) (*request, int, error) {
	size := record.MaxEncodedSize(r.Key, r.Value, r.Headers)
	p.mu.Lock()
	if err := p.awaitRoom(ctx, size); err != nil {
		p.mu.Unlock()
		return nil, 0, err
	}
	q := p.forming
	if q != nil && (q.size+size > p.options.requestBytes || q.count == record.MaxBatchRecords) {
		p.queue = append(p.queue, q)
		q, p.forming = nil, nil
	}
	if q == nil {
		q = p.newRequest()
	}
	if err := q.add(r); err != nil {
		p.mu.Unlock()
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
		p.forming, before = q, 0
	}
	q.size = q.builder.Size()
	p.buffered += q.size - before
	p.formed.Store(int64(q.count))
	if waits {
		if stream := p.goDirect(q); stream != nil {
			p.mu.Unlock()
			p.sendDirect(q, stream)
			return q, index, nil
		}
	}
	p.nudge()
	p.mu.Unlock()
	return q, index, nil
}

// acceptBatch makes a request out of all records, behind what was accepted
// before.
func (p *Producer) acceptBatch(ctx context.Context, records []Record, o appendOptions) (*request, error) {
	q := p.newRequest()
	for i := range records {
		if err := q.add(&records[i]); err != nil {
			return nil, fromRecord(err)
		}
	}
	q.size, q.waiters, q.conditions = q.builder.Size(), 1, o
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.awaitRoom(ctx, q.size); err != nil {
		return nil, err
	}
	if p.forming != nil {
		p.queue = append(p.queue, p.forming)
		p.forming = nil
		p.formed.Store(0)
	}
	p.queue = append(p.queue, q)
	p.buffered += q.size
	p.nudge()
	return q, nil
}

// awaitRoom waits until size more bytes may be accepted. The mutex is held, and
// is released meanwhile.
func (p *Producer) awaitRoom(ctx context.Context, size int) error {
	for {
		switch {
		case p.ended != nil:
			return p.ended
		case ctx.Err() != nil:
			return cancelled(ctx, NotDone)
		case p.buffered == 0 || p.buffered+size <= p.options.bufferBytes:
			return nil
		}
		if p.room == nil {
			p.room = make(chan struct{})
		}
		room := p.room
		p.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		p.mu.Lock()
	}
}

// release gives back what settled requests held of the buffer.
func (p *Producer) release(bytes int) {
	p.buffered -= bytes
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
}

// newRequest begins a request, in spare memory if there is some.
func (p *Producer) newRequest() *request {
	now := time.Now()
	q := &request{producer: p, accepted: now, timestamp: now.UnixMilli(), done: make(chan struct{})}
	if memory, ok := p.spare.Get().(*[]byte); ok {
		q.builder.Reset(*memory)
	} else {
		q.builder.Reset(make([]byte, 0, p.sealedSize.Load()))
	}
	return q
}

// recycle keeps the memory of a request that was answered on the only stream it
// was sent on: the answer proves that the transport has nothing of it left to
// write. After a broken stream nothing proves that.
func (p *Producer) recycle(q *request) {
	if q.sends != 1 || q.outcome != NotDone || cap(q.batch) > 2*p.options.requestBytes {
		return
	}
	memory := []byte(q.batch[:0])
	q.batch = nil
	p.spare.Put(&memory)
}

func (r *request) add(from *Record) error {
	to := record.Record{Timestamp: r.timestamp, Key: from.Key, Value: from.Value, Headers: from.Headers}
	if !from.Timestamp.IsZero() {
		to.Timestamp = from.Timestamp.UnixMilli()
	}
	if err := r.builder.Add(to); err != nil {
		return err
	}
	r.count++
	return nil
}
