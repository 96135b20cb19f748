package grpcserver

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/wire"
)

// maxUnanswered bounds the requests of one append stream that have been
// received and not answered. At the bound the stream is not read on.
const maxUnanswered = 1024

// appendStream is one Append stream. Its requests are received by a goroutine
// of their own, decided and made durable by the log, and answered by the
// handler's goroutine, in order.
//
// When the client goes away, or the stream is cancelled, what has been handed
// to the log is appended all the same and its answers are dropped: to the
// client the outcome is unknown, and Resolve or a re-send in the same session
// settles it. What has not been received whole by then is never appended.
//
// When the server stops, no more requests are handed to the log; those that
// were are answered, and the stream ends with SHUTTING_DOWN.
type appendStream struct {
	*logService
	stream  grpc.ServerStream
	inflow  rpc.Stream
	line    *rpc.Line[*appendCall]
	ctx     context.Context
	log     string // named by the first request
	encoder encoder
}

// Append serves an append stream.
func (d *logService) Append(stream grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error {
	s := &appendStream{
		logService: d,
		stream:     stream,
		inflow:     d.server.StreamOf(stream.Context()),
		line:       rpc.NewLine[*appendCall](maxUnanswered),
		ctx:        stream.Context(),
	}
	defer context.AfterFunc(s.ctx, s.line.Break)()
	defer context.AfterFunc(d.server.Stopping(), s.line.Close)()

	received := make(chan error, 1)
	d.server.Receive(func() {
		received <- s.receive()
		s.line.Close()
	})
	if err := s.answer(); err != nil {
		s.line.Break()
		return err
	}
	select {
	case err := <-received:
		return err
	case <-s.ctx.Done():
		return rpc.StatusOf(s.ctx, s.ctx.Err())
	case <-d.server.Stopping().Done():
		return rpc.StatusOf(s.ctx, rpc.ErrStopping)
	}
}

// receive hands requests to the log until the client has sent its last one
// (nil), the stream fails, or the line is closed (ErrStopping).
func (s *appendStream) receive() error {
	in := incoming{s: s}
	for s.inflow.Await(s.line) {
		if err := s.stream.RecvMsg(&in); err != nil {
			if in.call != nil {
				in.call.release()
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		c := in.call
		in.call = nil
		if !s.line.Join(&c.place) {
			c.release()
			return s.closed()
		}
		refusal := in.refusal
		if refusal == nil {
			refusal = s.check(c.work)
		}
		if refusal != nil {
			c.settle(sequence.Answer{Refusal: refusal})
			continue
		}
		s.node.Append(knowing(c.work.request.LogID), s.log, &c.work.append, c.done)
	}
	return s.closed()
}

// closed is why nothing more is received although the client may have more to
// send: an end of the stream without it would tell the client that all is done.
func (s *appendStream) closed() error {
	if err := s.ctx.Err(); err != nil {
		return rpc.StatusOf(s.ctx, err)
	}
	return rpc.StatusOf(s.ctx, rpc.ErrStopping)
}

// answer sends the answers in order, until there are no more.
func (s *appendStream) answer() error {
	var response wire.AppendResponse
	for {
		c, ok := s.line.Next()
		if !ok {
			return nil
		}
		c.encode(&response)
		c.recycle()
		s.inflow.Sending()
		err := s.stream.SendMsg(&response)
		s.inflow.Sent()
		if err != nil {
			return err
		}
	}
}
