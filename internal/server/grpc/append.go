package grpcserver

import (
	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/wire"
)

// maxUnanswered bounds the requests of one append stream that have been
// received and not answered. At the bound the stream is not read on.
const maxUnanswered = 1024

// appendStream is one Append stream. A request whose answer did not reach its client
// is settled by Resolve, or by sending it again in the same session.
type appendStream struct {
	*logService
	rpc.AppendStream[*appendCall]
	stream   grpc.ServerStream
	log      string // named by the first request
	in       incoming
	encoder  encoder
	response wire.AppendResponse
}

// Append serves an append stream.
func (d *logService) Append(stream grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error {
	s := &appendStream{
		logService: d, stream: stream, AppendStream: rpc.NewAppendStream[*appendCall](d.server, stream.Context(), maxUnanswered),
	}
	s.in.s = s
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
		refusal = s.check(c.work)
	}
	if refusal != nil {
		c.settle(sequence.Answer{Refusal: refusal})
		return
	}
	s.node.Append(knowing(c.work.request.LogID), s.log, &c.work.append, c.done)
}

// Answer implements rpc.AppendCalls.
func (s *appendStream) Answer(c *appendCall) error {
	c.encode(&s.response)
	c.recycle()
	return s.stream.SendMsg(&s.response)
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
