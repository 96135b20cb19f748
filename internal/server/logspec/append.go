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
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
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

// appendStream is one Append stream: requests are received by a goroutine of
// their own and answered by the handler's, in order.
//
// The appends carry no session, because the service has none: a client that
// loses the stream sends what was not answered again, and may thereby append
// it twice. For the same reason requests that are behind a refused one may be
// in the log although their replies never come.
type appendStream struct {
	*service
	ctx    context.Context
	stream grpc.BidiStreamingServer[logspec.AppendRequest, logspec.AppendReply]
	inflow rpc.Stream
	line   *rpc.Line[*appendCall]
}

// appendCall is one request.
type appendCall struct {
	place   rpc.Place[*appendCall]
	stream  *appendStream
	charged int64
	request logspec.AppendRequest
	refusal *record.Refusal // decided before decoding
	append  sequence.Append
	answer  sequence.Answer
}

func (d *service) Append(stream grpc.BidiStreamingServer[logspec.AppendRequest, logspec.AppendReply]) error {
	s := &appendStream{
		service: d, ctx: stream.Context(), stream: stream, inflow: d.server.StreamOf(stream.Context()), line: rpc.NewLine[*appendCall](maxUnanswered),
	}
	if err := d.ensureLog(s.ctx); err != nil {
		return s.end(err)
	}
	defer context.AfterFunc(s.ctx, s.line.Break)()
	defer context.AfterFunc(d.server.Stopping(), s.line.Close)()

	received := make(chan error, 1)
	d.server.Receive(func() {
		received <- s.receive()
		s.line.Close()
	})
	for {
		c, ok := s.line.Next()
		if !ok {
			break
		}
		if c.answer.Refusal != nil {
			return s.end(c.answer.Refusal)
		}
		reply := &logspec.AppendReply{Reply: &logspec.AppendReply_Ok{Ok: c.ok()}}
		s.inflow.Sending()
		err := stream.Send(reply)
		s.inflow.Sent()
		if err != nil {
			s.line.Break()
			return err
		}
	}
	select {
	case err := <-received:
		return err
	case <-s.ctx.Done():
		return statusOf(s.ctx, s.ctx.Err())
	case <-d.server.Stopping().Done():
		return statusOf(s.ctx, rpc.ErrStopping)
	}
}

// end finishes the stream for good: with a last reply, where there is one that
// says what happened, or with a status.
func (s *appendStream) end(err error) error {
	if r := redirect(err); r != nil {
		return s.stream.Send(&logspec.AppendReply{Reply: &logspec.AppendReply_Redirect{Redirect: r}})
	}
	if is(err, record.Full) {
		return s.stream.Send(&logspec.AppendReply{Reply: &logspec.AppendReply_Full{Full: true}})
	}
	return statusOf(s.ctx, err)
}

func (s *appendStream) receive() error {
	for number := uint64(1); s.inflow.Await(s.line); number++ {
		c := &appendCall{stream: s}
		c.place.Value = c
		if err := s.stream.RecvMsg(c); err != nil {
			s.server.Appends.Release(c.charged)
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if !s.line.Join(&c.place) {
			s.server.Appends.Release(c.charged)
			return s.closed()
		}
		refusal := c.refusal
		if refusal == nil && c.request.GetSequence() != number {
			refusal = record.Refuse(record.Invalid, "sequence %d where %d comes next", c.request.GetSequence(), number)
		}
		if refusal == nil {
			refusal = c.encode()
		}
		if refusal == nil && c.append.Records == 0 {
			refusal = s.probe()
		}
		if refusal != nil || c.append.Records == 0 {
			c.settle(sequence.Answer{Refusal: refusal})
			continue
		}
		s.node.Append(anonymous, s.log, &c.append, c.settle)
	}
	return s.closed()
}

// closed is why nothing more is received although the client may have more to
// send: an end of the stream without it would tell the client that all is done.
func (s *appendStream) closed() error {
	if err := s.ctx.Err(); err != nil {
		return statusOf(s.ctx, err)
	}
	return statusOf(s.ctx, rpc.ErrStopping)
}

// probe answers a request without proposals, with which a client finds out
// whether there is room again.
func (s *appendStream) probe() *record.Refusal {
	info, err := s.node.KnownInfo(anonymous, s.log)
	if err == nil && info.Full {
		return record.Refuse(record.Full, "the disk is nearly full: discard, or wait")
	}
	return refusalOf(err)
}

// Admit implements rpc.Admission.
func (c *appendCall) Admit(data mem.BufferSlice) (any, error) {
	proposals := rpc.CountFields(data, proposalField)
	cost := int64(data.Len()) + rpc.RequestCost + int64(proposals)*proposalCost
	if proposals > maxProposals {
		// Not TOO_LARGE, whose code here is one that clients wait and try again for.
		c.refusal = record.Refuse(record.Invalid, "%d proposals in one request, the limit is %d: send several requests", proposals, maxProposals)
		cost = int64(data.Len())
	}
	if err := c.stream.inflow.Take(data.Len(), cost); err != nil {
		return nil, err
	}
	c.charged = cost
	if c.refusal != nil {
		return nil, nil
	}
	return &c.request, nil
}

// encode puts the proposals into batches, which one append keeps together.
func (c *appendCall) encode() *record.Refusal {
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
		const framing = 36 // at most, of one record
		if b.Count() > 0 && b.Size()+len(data)+framing > batchTarget {
			if err := finish(); err != nil {
				return refusalOf(err)
			}
		}
		if b.Count() == 0 {
			b.Reset(make([]byte, 0, batchSize(proposals[i:], framing)))
		}
		if err := b.Add(record.Record{Timestamp: now, Value: data}); err != nil {
			return refusalOf(err)
		}
		proposals[i] = nil
	}
	if b.Count() == 0 {
		return nil
	}
	return refusalOf(finish())
}

// batchSize is how large the batch will be that begins with these proposals.
func batchSize(proposals [][]byte, framing int) int {
	size := record.BatchHeaderSize
	for i, data := range proposals {
		if i > 0 && size+len(data)+framing > batchTarget {
			break
		}
		size += len(data) + framing
	}
	return min(size, record.MaxBatchBytes)
}

// settle takes the answer. Nothing is received behind a refusal, which is the
// last reply of the stream.
func (c *appendCall) settle(a sequence.Answer) {
	c.answer = a
	c.request.Proposals, c.append = nil, sequence.Append{}
	s := c.stream
	s.server.Appends.Release(c.charged)
	if a.Refusal != nil {
		s.line.Close()
	}
	s.line.Answer(&c.place)
}

// ok tells the index of each proposal; a probe has none.
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

func refusalOf(err error) *record.Refusal {
	if err == nil {
		return nil
	}
	var r *record.Refusal
	if !errors.As(err, &r) {
		r = record.Refuse(record.Invalid, "%v", err)
	}
	return r
}
