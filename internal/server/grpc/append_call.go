package grpcserver

import (
	"sync"

	"google.golang.org/grpc/mem"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/wire"
)

// appendCall is one request of an append stream, from its admission until its
// answer has been sent. Once it is answered it is small: a client that does
// not fetch its answers holds up to maxUnanswered of them.
type appendCall struct {
	place  rpc.Place[*appendCall]
	stream *appendStream
	work   *appendWork // nil once answered
	answer sequence.Answer
	done   func(sequence.Answer) // settle, bound once
}

// appendWork is the part of a call that counts against the budget, from its
// admission to its answer. It is used again with the memory of its batches.
type appendWork struct {
	charged int64 // taken from the budget
	request wire.AppendRequest
	append  sequence.Append
}

var (
	appendCalls = sync.Pool{New: func() any {
		c := new(appendCall)
		c.place.Value = c
		c.done = c.settle
		return c
	}}
	appendWorks = sync.Pool{New: func() any { return new(appendWork) }}
)

// Work that kept much more memory than requests usually need releases it.
const (
	keptBytes   = 1<<20 + 64<<10
	keptBatches = 64
)

// settle takes the answer. It is called once, from any goroutine.
func (c *appendCall) settle(a sequence.Answer) {
	c.answer = a
	c.release()
	// After this the call may belong to another request.
	c.stream.Line.Answer(&c.place)
}

// release ends the work on a request and gives back what it took from the
// budget.
func (c *appendCall) release() {
	w := c.work
	c.work = nil
	c.stream.server.Appends.Release(w.charged)
	batches := w.append.Batches
	clear(batches)
	if cap(batches) > keptBatches {
		batches = nil
	}
	w.append = sequence.Append{Batches: batches[:0]}
	w.request.Records = nil
	if cap(w.request.Batches) > keptBytes {
		w.request.Batches = nil
	}
	appendWorks.Put(w)
}

// recycle ends the call.
func (c *appendCall) recycle() {
	c.stream, c.answer = nil, sequence.Answer{}
	appendCalls.Put(c)
}

// incoming admits the next request of a stream, see rpc.Admission. A stream
// that waits for its client holds no call.
type incoming struct {
	s       *appendStream
	call    *appendCall
	refusal *record.Refusal // decided before decoding
}

// Admit takes what the request will cost out of the budget and then gives it a
// call to be decoded into.
func (in *incoming) Admit(data mem.BufferSlice) (any, error) {
	size := data.Len()
	cost, refusal := decodedCost(data, size)
	if err := in.s.Take(size, cost); err != nil {
		return nil, err
	}
	w := appendWorks.Get().(*appendWork)
	w.charged = cost
	c := appendCalls.Get().(*appendCall)
	c.stream, c.work = in.s, w
	in.call, in.refusal = c, refusal
	if refusal != nil {
		return nil, nil
	}
	// Memory that is much larger than the request would not be covered by what
	// the request was charged.
	if kept := cap(w.request.Batches); kept > 4096 && kept/4 > size {
		w.request.Batches = nil
	}
	return &w.request, nil
}
