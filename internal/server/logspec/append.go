package logspecserver

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"strandline.dev/api/logspec"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

const (
	// maxUnanswered bounds the requests of one stream without a reply. The
	// requests of this service are up to 8 MiB, so few keep a log busy.
	maxUnanswered = 256

	// proposalField is the number of AppendRequest.proposals; each takes
	// proposalCost in memory besides its bytes.
	proposalField = 2
	proposalCost  = 32

	// maxProposals bounds the proposals of one request, which then decodes into at
	// most 128 MiB.
	maxProposals = 2 << 20

	// batchTarget is where proposals are cut into batches: just below what an
	// entry holds.
	batchTarget = record.EntryTargetBytes - 4<<10
)

// appendStream is one Append stream.
//
// The appends carry no session, because the service has none: a client that
// loses the stream sends what was not answered again, and may thereby append
// it twice. For the same reason requests that are behind a refused one may be
// in the log although their replies never come.
type appendStream struct {
	*service
	rpc.AppendStream[*appendCall]
	ctx    context.Context
	caller verbs.Caller
	stream grpc.BidiStreamingServer[logspec.AppendRequest, logspec.AppendReply]
	number uint64 // of the newest request, from 1
}

// appendCall is one request.
type appendCall struct {
	place   rpc.Place[*appendCall]
	stream  *appendStream // nil once it is with the log, which may answer long after the stream
	line    *rpc.Line[*appendCall]
	server  *rpc.Server
	charged int64
	request logspec.AppendRequest
	refusal *record.Refusal // decided before decoding
	append  sequence.Append
	answer  sequence.Answer
}

func (d *service) Append(stream grpc.BidiStreamingServer[logspec.AppendRequest, logspec.AppendReply]) error {
	s := &appendStream{
		service: d, ctx: stream.Context(), caller: guard.CallerOf(stream.Context()), stream: stream,
		AppendStream: rpc.NewAppendStream[*appendCall](d.server, stream, maxUnanswered),
	}
	err := d.ensureLog(s.ctx)
	if err == nil {
		err = s.mayAppend()
	}
	if err != nil {
		return s.end(err)
	}
	return statusOf(s.ctx, s.Run(s))
}

// mayAppend refuses a caller that may not append, before its request is decoded.
func (s *appendStream) mayAppend() error {
	return s.node.May(s.caller, guard.Append, s.log)
}

// Answer implements rpc.AppendCalls. A refusal is the last reply.
func (s *appendStream) Answer(c *appendCall) error {
	if c.answer.Refusal != nil {
		if err := s.end(c.answer.Refusal); err != nil {
			return err
		}
		return io.EOF
	}
	return s.Send(&logspec.AppendReply{Reply: &logspec.AppendReply_Ok{Ok: c.ok()}})
}

// end finishes the stream with a last reply, if one can express the outcome, or with a status.
func (s *appendStream) end(err error) error {
	if r := redirect(err); r != nil {
		return s.Send(&logspec.AppendReply{Reply: &logspec.AppendReply_Redirect{Redirect: r}})
	}
	if is(err, record.Full) {
		return s.Send(&logspec.AppendReply{Reply: &logspec.AppendReply_Full{Full: true}})
	}
	return statusOf(s.ctx, err)
}

// Receive implements rpc.AppendCalls.
func (s *appendStream) Receive() (*rpc.Place[*appendCall], error) {
	c := &appendCall{stream: s, line: s.Line, server: s.server}
	c.place.Value = c
	if err := s.stream.RecvMsg(c); err != nil {
		s.Drop(c)
		return nil, err
	}
	c.stream = nil
	return &c.place, nil
}

// Drop implements rpc.AppendCalls.
func (s *appendStream) Drop(c *appendCall) { s.server.Appends.Release(c.charged) }

// Append implements rpc.AppendCalls.
func (s *appendStream) Append(c *appendCall) {
	s.number++
	refusal := c.refusal
	if refusal == nil && c.request.GetSequence() != s.number {
		refusal = record.Refuse(record.Invalid, "expected sequence %[2]d, got %[1]d", c.request.GetSequence(), s.number)
	}
	if refusal == nil {
		refusal = record.RefusalOf(c.encode())
	}
	if refusal == nil && c.append.Records == 0 {
		refusal = s.probe()
	}
	if refusal != nil || c.append.Records == 0 {
		c.settle(sequence.Answer{Refusal: refusal})
		return
	}
	s.node.Append(s.caller, s.log, &c.append, nil, c.settle)
}

// probe answers a request without proposals, with which a client finds out
// whether there is room again.
func (s *appendStream) probe() *record.Refusal {
	info, err := s.node.KnownInfo(s.caller, s.log)
	if err == nil && info.Full {
		return record.Refuse(record.Full, "too few replicas have free disk space for records: discard records, or wait")
	}
	return record.RefusalOf(err)
}

// Admit implements rpc.Admission.
func (c *appendCall) Admit(data mem.BufferSlice) (any, error) {
	proposals := rpc.CountFields(data, proposalField)
	cost := int64(data.Len()) + rpc.RequestCost + int64(proposals)*proposalCost
	if refusal := record.RefusalOf(c.stream.mayAppend()); refusal != nil { // rights are taken away as well
		c.refusal, cost = refusal, int64(data.Len())
	} else if proposals > maxProposals {
		// Not TOO_LARGE, whose code here is one that clients wait and try again for.
		c.refusal = record.Refuse(record.Invalid, "%d proposals in one request, the limit is %d; send several requests", proposals, maxProposals)
		cost = int64(data.Len())
	}
	if c.refusal == nil {
		err := c.stream.node.PaceAppend(c.stream.ctx, c.stream.caller, c.stream.log, data.Len(), c.stream.Waits)
		if err != nil && !errors.As(err, &c.refusal) {
			return nil, err
		}
		if c.refusal != nil {
			cost = int64(data.Len())
		}
	}
	if err := c.stream.Take(data.Len(), cost); err != nil {
		return nil, err
	}
	c.charged = cost
	if c.refusal != nil {
		return nil, nil
	}
	return &c.request, nil
}

// encode puts the proposals into batches, which one append keeps together.
func (c *appendCall) encode() error {
	now := time.Now().UnixMilli()
	proposals := c.request.GetProposals()
	c.append = sequence.Append{ExpectedEnd: sequence.NoExpectation}
	var b record.Builder
	finish := func() error {
		batch, err := b.Finish(record.None)
		if err != nil {
			return err
		}
		c.append.Batches = append(c.append.Batches, batch)
		c.append.Records += batch.Count()
		c.append.Bytes += len(batch)
		return nil
	}
	for i, data := range proposals {
		if b.Count() > 0 && b.Size()+record.MaxEncodedSize(nil, data, nil) > batchTarget {
			if err := finish(); err != nil {
				return err
			}
		}
		if b.Count() == 0 {
			b.Reset(make([]byte, 0, batchSize(proposals[i:])))
		}
		if err := b.Add(record.Record{Timestamp: now, Value: data}); err != nil {
			return err
		}
		proposals[i] = nil
	}
	if b.Count() == 0 {
		return nil
	}
	return finish()
}

// batchSize returns the size of the batch that begins with these proposals.
func batchSize(proposals [][]byte) int {
	size := record.BatchHeaderSize
	for i, data := range proposals {
		encoded := record.MaxEncodedSize(nil, data, nil)
		if i > 0 && size+encoded > batchTarget {
			break
		}
		size += encoded
	}
	return min(size, record.MaxBatchBytes)
}

// settle receives the answer. Nothing is received after a refusal, which is the last reply of the
// stream.
func (c *appendCall) settle(a sequence.Answer) {
	c.answer = a
	c.request.Proposals, c.append = nil, sequence.Append{}
	c.server.Appends.Release(c.charged)
	if a.Refusal != nil {
		c.line.Close()
	}
	c.line.Answer(&c.place)
}

// ok returns the index of each proposal; a probe has none.
func (c *appendCall) ok() *logspec.AppendReply_OK {
	ok := &logspec.AppendReply_OK{Sequence: c.request.GetSequence()}
	for run := range c.answer.Runs() {
		ok.Indexes = slices.Grow(ok.Indexes, int(run.Count))
		for i := range run.Count {
			ok.Indexes = append(ok.Indexes, indexOf(run.First+record.Offset(i)))
		}
	}
	return ok
}
