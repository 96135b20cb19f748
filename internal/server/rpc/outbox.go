package rpc

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"strandline.dev/internal/budget"
)

// outbox sends the answers of a stream over gRPC. For an answer of 15 bytes that the client does
// not accept, gRPC holds some 500 bytes. So gRPC gets a few answers at a time, and the outbox holds
// the others in encoded form. Meanwhile the outbox continues to take answers from the line, so that
// the connection is read: the client's permission to send follows its requests.
type outbox struct {
	stream  grpc.ServerStream
	answers *budget.Shares
	inflow  *inflow
	next    sending // used by the one goroutine that passes answers to gRPC

	mu sync.Mutex
	// changed: gRPC has written answers or was given them, or the stream has ended.
	changed sync.Cond
	given   int // answers that gRPC has and has not written
	waiting []outboxChunk
	held    int64 // capacity of waiting
	// feeding is set while a goroutine passes waiting answers to gRPC; no other goroutine does.
	feeding bool
	ended   error
}

// outboxChunk is encoded answers, each behind its length, of which some have been taken.
type outboxChunk struct {
	data  []byte
	taken int
}

const (
	// maxGiven is how many answers of a stream gRPC is given before it has written one.
	maxGiven = 64
	// maxOutboxBytes bounds the waiting answers of a stream, as far as there is memory. A stream
	// may always hold one chunk.
	maxOutboxBytes = 256 << 10
	chunkBytes     = 2 << 10
)

// newOutbox returns nil where a stream does not go through gRPC.
func newOutbox(stream grpc.ServerStream, answers *budget.Shares, f *inflow) *outbox {
	if grpc.ServerTransportStreamFromContext(stream.Context()) == nil {
		return nil
	}
	o := &outbox{stream: stream, answers: answers, inflow: f}
	o.changed.L = &o.mu
	return o
}

// send sends an answer or keeps it, waiting while too much is kept.
func (o *outbox) send(answer any) error {
	o.mu.Lock()
	if !o.feeding && o.given < maxGiven {
		o.given++
		o.mu.Unlock()
		return o.give(answer)
	}
	defer o.mu.Unlock()
	for o.ended == nil && o.held > chunkBytes && o.held > o.answers.Share(maxOutboxBytes) {
		o.changed.Wait()
	}
	if o.ended != nil {
		return o.ended
	}
	if err := o.keep(answer); err != nil {
		return err
	}
	if !o.feeding {
		o.feeding = true
		go o.feed()
	}
	return nil
}

// keep encodes an answer. The caller holds mu.
func (o *outbox) keep(answer any) error {
	encoded, err := serverCodec.Marshal(answer)
	if err != nil {
		return err
	}
	defer encoded.Free()
	size := encoded.Len()
	need := binary.MaxVarintLen64 + size
	if last := len(o.waiting) - 1; last < 0 || cap(o.waiting[last].data)-len(o.waiting[last].data) < need {
		o.waiting = append(o.waiting, outboxChunk{data: make([]byte, 0, max(chunkBytes, need))})
		o.count(max(chunkBytes, need))
	}
	c := &o.waiting[len(o.waiting)-1]
	c.data = binary.AppendUvarint(c.data, uint64(size))
	encoded.CopyTo(c.data[len(c.data) : len(c.data)+size])
	c.data = c.data[:len(c.data)+size]
	return nil
}

// take removes the first waiting answer and returns it. The caller holds mu.
func (o *outbox) take() []byte {
	c := &o.waiting[0]
	size, n := binary.Uvarint(c.data[c.taken:])
	end := c.taken + n + int(size)
	answer := c.data[c.taken+n : end]
	c.taken = end
	if end == len(c.data) {
		o.count(-cap(c.data))
		*c = outboxChunk{}
		o.waiting = o.waiting[1:]
		o.changed.Broadcast()
	}
	return answer
}

// count changes held. The caller holds mu.
func (o *outbox) count(change int) {
	o.answers.Changed(o.held, o.held+int64(change))
	o.held += int64(change)
}

// feed passes waiting answers to gRPC.
func (o *outbox) feed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.ended == nil && len(o.waiting) > 0 {
		if o.given >= maxGiven {
			o.changed.Wait()
			continue
		}
		answer := o.take()
		o.given++
		o.mu.Unlock()
		err := o.give(mem.SliceBuffer(answer))
		o.mu.Lock()
		if o.ended == nil {
			o.ended = err
		}
	}
	o.feeding = false
	o.changed.Broadcast()
}

// give gives an answer to gRPC. It was counted in given.
func (o *outbox) give(answer any) error {
	o.inflow.send(1)
	o.next = sending{answer, o}
	return o.stream.SendMsg(&o.next)
}

// written counts an answer that gRPC has written or dropped.
func (o *outbox) written() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.given == 0 {
		return // closed
	}
	o.given--
	o.inflow.send(-1)
	if o.feeding && o.given == maxGiven/2 {
		o.changed.Broadcast()
	}
}

// end ends all waits because the stream has ended.
func (o *outbox) end(err error) {
	o.mu.Lock()
	o.ended = err
	o.changed.Broadcast()
	o.mu.Unlock()
}

// close waits until gRPC has been given all, or returns why it was not. Nothing is sent
// after it.
func (o *outbox) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.feeding {
		o.changed.Wait()
	}
	o.inflow.send(-o.given)
	o.given, o.waiting = 0, nil
	o.count(-int(o.held))
	return o.ended
}

// sending is an answer on its way through gRPC.
type sending struct {
	answer any // a message, or a mem.SliceBuffer that is one, encoded
	from   *outbox
}

// encode encodes the answer as a message whose last buffer notifies the outbox when it is
// released.
func (s *sending) encode(c codec) (data mem.BufferSlice, err error) {
	if encoded, ok := s.answer.(mem.SliceBuffer); ok {
		data = mem.BufferSlice{encoded}
	} else if data, err = c.CodecV2.Marshal(s.answer); err != nil {
		return nil, err
	}
	return counting(data, s.from), nil
}

// countedBuffer calls back when gRPC no longer needs the buffer. gRPC's own buffers do not, if they
// are too small to be pooled.
type countedBuffer struct {
	mem.Buffer
	of   interface{ written() }
	uses atomic.Int32
}

var countedBuffers = sync.Pool{New: func() any { return new(countedBuffer) }}

// counting makes the last buffer of a message one that notifies of. There is one in an empty message, too.
func counting(data mem.BufferSlice, of interface{ written() }) mem.BufferSlice {
	if len(data) == 0 {
		data = mem.BufferSlice{mem.SliceBuffer{}}
	}
	counted := countedBuffers.Get().(*countedBuffer)
	counted.Buffer, counted.of = data[len(data)-1], of
	counted.uses.Store(1)
	data[len(data)-1] = counted
	return data
}

// Ref implements mem.Buffer.
func (b *countedBuffer) Ref() { b.uses.Add(1) }

// Free implements mem.Buffer.
func (b *countedBuffer) Free() {
	if b.uses.Add(-1) > 0 {
		return
	}
	b.Buffer.Free()
	of := b.of
	b.Buffer, b.of = nil, nil
	countedBuffers.Put(b)
	of.written()
}
