package grpcserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/wire"
)

// maxUnanswered bounds the requests of one append stream that have been
// received and not answered. At the bound the stream is not read on.
const maxUnanswered = 1024

// appends are what streams of appends ask of a node.
type appends interface {
	Append(c verbs.Caller, log string, a *sequence.Append, written, done func(sequence.Answer))
	// May refuses what the caller has no right to.
	May(c verbs.Caller, v *guard.Verb, name string) error
	PaceAppend(ctx context.Context, c verbs.Caller, log string, bytes int, waits func() (done func())) error
}

// appendStream is one Append stream. A request whose answer did not reach its client
// is settled by Resolve, or by sending it again in the same session.
type appendStream struct {
	*logService
	rpc.AppendStream[*appendCall]
	stream   grpc.ServerStream
	caller   verbs.Caller
	log      string // named by the first request
	in       incoming
	explains bool                 // a request has asked for its stages
	waits    func() (done func()) // Waits, bound once
	encoder  encoder
	response wire.AppendResponse
}

// Append serves an append stream.
func (d *logService) Append(stream grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error {
	s := &appendStream{
		logService: d, stream: stream, caller: guard.CallerOf(stream.Context()), AppendStream: rpc.NewAppendStream[*appendCall](d.server, stream, maxUnanswered),
	}
	s.in.s, s.waits = s, s.Waits
	s.caller.Trace = traceOf(stream.Context())
	if g, ok := stream.(*grpc.GenericServerStream[strandlinev1.AppendRequest, strandlinev1.AppendResponse]); ok {
		s.SendBy(g.ServerStream, s.tryAnswer)
	}
	return rpc.StatusOf(stream.Context(), s.Run(s))
}

// Receive implements rpc.AppendCalls.
func (s *appendStream) Receive() (*rpc.Place[*appendCall], error) {
	err := s.stream.RecvMsg(&s.in)
	c := s.in.call
	s.in.call = nil
	if err != nil {
		if c != nil {
			c.release()
		}
		return nil, err
	}
	return &c.place, nil
}

// Drop implements rpc.AppendCalls.
func (s *appendStream) Drop(c *appendCall) { c.release() }

// Append implements rpc.AppendCalls.
func (s *appendStream) Append(c *appendCall) {
	refusal := s.in.refusal
	if refusal == nil {
		refusal = s.check(s.stream.Context(), c.work)
	}
	if refusal != nil {
		c.settle(sequence.Answer{Refusal: refusal})
		return
	}
	s.explain(c)
	s.caller.Log = c.work.request.LogID
	s.node.Append(s.caller, s.log, &c.work.append, nil, c.done)
}

// Answer implements rpc.AppendCalls.
func (s *appendStream) Answer(c *appendCall) error {
	c.encode(&s.response)
	c.recycle()
	return s.Send(&s.response)
}

// tryAnswer is Answer where that needs no waiting.
func (s *appendStream) tryAnswer(send func(any) bool, c *appendCall) bool {
	c.encode(&s.response)
	sent := send(&s.response)
	if sent {
		c.recycle()
	}
	return sent
}

// encode makes the response out of the log's answer.
func (c *appendCall) encode(out *wire.AppendResponse) {
	a := &c.answer
	if a.Refusal != nil {
		*out = wire.AppendResponse{Refused: rpc.InStream(a.Refusal, a.First.Count > 0)}
		return
	}
	*out = wire.AppendResponse{
		FirstOffset: int64(a.First.First),
		EndOffset:   int64(end(a.First)),
		Duplicate:   a.Duplicate,
		Stages:      c.explained.answered(),
	}
	if len(a.More) == 0 {
		return
	}
	for run := range a.Runs() {
		out.Ranges = append(out.Ranges, &strandlinev1.OffsetRange{First: int64(run.First), End: int64(end(run))})
		out.EndOffset = int64(end(run))
	}
}

func end(r sequence.Run) record.Offset { return r.First + record.Offset(r.Count) }

// appendCall is one request of an append stream, from its admission until its
// answer has been sent. Once it is answered it is small: a client that does
// not fetch its answers holds up to maxUnanswered of them. It does not hold its stream: a
// log answers long after a client has gone, and gRPC keeps unreceived data with the stream.
type appendCall struct {
	place  rpc.Place[*appendCall]
	line   *rpc.Line[*appendCall]
	work   *appendWork // nil once answered
	answer sequence.Answer
	done   func(sequence.Answer) // settle, bound once

	explained *explanation // nil: not requested
}

// appendWork is the part of a call that counts against the budget, from its
// admission to its answer. It is used again with the memory of its batches.
type appendWork struct {
	server  *rpc.Server
	charged int64 // taken from the server's budget
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

// settle receives the answer. It is called once, on any goroutine.
func (c *appendCall) settle(a sequence.Answer) {
	c.answer = a
	c.release()
	// After this the call may belong to another request.
	c.line.Answer(&c.place)
}

// release ends the work on a request and gives back what it took from the
// budget.
func (c *appendCall) release() {
	w := c.work
	c.work = nil
	w.server.Appends.Release(w.charged)
	batches := w.append.Batches
	clear(batches)
	if cap(batches) > keptBatches {
		batches = nil
	}
	w.append = sequence.Append{Batches: batches[:0]}
	w.request.Records, w.request.Check = nil, nil
	if cap(w.request.Batches) > keptBytes {
		w.request.Batches = nil
	}
	appendWorks.Put(w)
}

// recycle ends the call.
func (c *appendCall) recycle() {
	c.line, c.answer, c.explained = nil, sequence.Answer{}, nil
	appendCalls.Put(c)
}

// incoming admits the next request of a stream, see rpc.Admission. A stream
// that waits for its client holds no call.
type incoming struct {
	s       *appendStream
	call    *appendCall
	refusal *record.Refusal // decided before decoding
	allowed bool            // a request of the stream was, see mayAppend
	arrived time.Time       // of a stream that explains
}

// Admit reserves the cost of the request in the budget, and then returns the message into which the
// request is decoded.
func (in *incoming) Admit(data mem.BufferSlice) (any, error) {
	if in.s.explains {
		in.arrived = time.Now()
	}
	size := data.Len()
	cost := int64(size)
	refusal := in.mayAppend(data, size)
	if refusal == nil {
		cost, refusal = decodedCost(data, size)
	}
	if refusal == nil {
		err := in.s.node.PaceAppend(in.s.Context(), in.s.caller, in.s.log, size, in.s.waits)
		if errors.As(err, &refusal) {
			cost = int64(size)
		} else if err != nil {
			return nil, err
		}
	}
	if err := in.s.Take(size, cost); err != nil {
		return nil, err
	}
	w := appendWorks.Get().(*appendWork)
	w.server, w.charged = in.s.server, cost
	c := appendCalls.Get().(*appendCall)
	c.line, c.work = in.s.Line, w
	in.call, in.refusal = c, refusal
	if refusal != nil {
		return nil, nil
	}
	// The charge for the request would not cover memory that is much larger than the request.
	if kept := cap(w.request.Batches); kept > 4096 && kept/4 > size {
		w.request.Batches = nil
	}
	return &w.request, nil
}
