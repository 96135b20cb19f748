package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
)

// AppendStream is a stream of requests to append. They are received by a goroutine of
// their own, decided and made durable by the log, and answered by the handler's
// goroutine, in order.
//
// When the client goes away, or the stream is cancelled, what has been handed to the
// log is appended all the same and its answers are dropped: to the client the outcome
// is unknown. What has not been received whole by then is never appended.
//
// When the server stops, no more requests are handed to the log; those that were are
// answered, and the stream ends with SHUTTING_DOWN.
type AppendStream[T any] struct {
	// Line brings the answers into the order of the requests.
	Line *Line[T]

	server *Server
	stream grpc.ServerStream
	ctx    context.Context
	inflow *inflow
	outbox *outbox // nil where what is sent has left this process when SendMsg returns
	// slowRefused holds the stream up if its requests are refused without end, see Callers.
	slowRefused func()
}

// AppendCalls is what a service does with the requests of a stream.
type AppendCalls[T any] interface {
	// Receive receives the next request, which gets a place in the line. The error is
	// io.EOF after the last one.
	Receive() (*Place[T], error)
	// Drop ends a request that gets no answer.
	Drop(T)
	// Append hands a request to the log. Whoever has the answer gives it to the line.
	Append(T)
	// Answer sends the answer of a request, by Send. The error ends the stream, io.EOF
	// without a failure.
	Answer(T) error
}

// NewAppendStream makes one of a handler's stream, with at most so many requests that have
// been received and whose answers have not been sent. At the bound it is not read.
func NewAppendStream[T any](s *Server, stream grpc.ServerStream, limit int) AppendStream[T] {
	ctx := stream.Context()
	a := AppendStream[T]{Line: NewLine[T](limit), server: s, stream: stream, ctx: ctx, inflow: inflowOf(ctx)}
	a.Line.Within(s.options.Answers)
	a.slowRefused = func() {}
	if s.options.Callers != nil {
		from, _ := shown(ctx)
		a.inflow.belongs(s.options.Callers.Whose(ctx, from))
		a.slowRefused = s.options.Callers.SlowRefused(ctx)
	}
	a.outbox = newOutbox(stream, s.options.Answers, a.inflow)
	return a
}

// trySender is a stream that sends without waiting, see lean.
type trySender interface {
	CanTry() bool
	TrySend(m any) bool
}

// SendBy lets answers that need no waiting be sent by TryAnswer of calls, for those of
// many streams at once. It is called before Run, and does nothing where the stream has no
// way to.
func (a *AppendStream[T]) SendBy(stream any, try func(send func(m any) bool, value T) bool) {
	if s, ok := stream.(trySender); ok && s.CanTry() {
		a.Line.SendBy(&a.server.answers, func(value T) bool { return try(s.TrySend, value) })
	}
}

// Run serves the stream to its end. The error is a status, or one for StatusOf.
func (a *AppendStream[T]) Run(calls AppendCalls[T]) error {
	a.inflow.serve(1)
	defer a.inflow.serve(-1)
	defer a.Line.Break()
	defer context.AfterFunc(a.ctx, a.gone)()
	defer context.AfterFunc(a.server.stopping, a.Line.Close)()
	err := a.answer(calls)
	if a.outbox == nil {
		return err
	}
	return cmp.Or(err, a.outbox.close())
}

func (a *AppendStream[T]) gone() {
	a.Line.Break()
	if a.outbox != nil {
		a.outbox.end(a.ctx.Err())
	}
}

// Send sends an answer. Over gRPC it may be on its way for long after that.
func (a *AppendStream[T]) Send(answer any) error {
	if a.outbox != nil {
		return a.outbox.send(answer)
	}
	a.inflow.send(1)
	defer a.inflow.send(-1)
	return a.stream.SendMsg(answer)
}

// answer sends answers until the last one.
func (a *AppendStream[T]) answer(calls AppendCalls[T]) error {
	received := make(chan error, 1)
	a.server.receivers.Go(func() {
		received <- a.receive(calls)
		a.Line.Close()
	})
	for {
		call, ok := a.Line.Next()
		if !ok {
			break
		}
		if err := calls.Answer(call); err != nil {
			a.Line.Break()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
	select {
	case err := <-received:
		return err
	case <-a.ctx.Done():
		return a.ctx.Err()
	case <-a.server.stopping.Done():
		return ErrStopping
	}
}

// receive hands requests to the log until the client has sent its last one (nil), the
// stream fails, or the line is closed.
func (a *AppendStream[T]) receive(calls AppendCalls[T]) error {
	for a.awaitRoom() {
		place, err := calls.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !a.Line.Join(place) {
			calls.Drop(place.Value)
			break
		}
		calls.Append(place.Value)
		a.slowRefused()
	}
	// The client may have more to send: an end of the stream without an error would
	// mean to it that all is done.
	if err := a.ctx.Err(); err != nil {
		return err
	}
	return ErrStopping
}

// awaitRoom waits for room in the line, as Line.AwaitRoom does.
func (a *AppendStream[T]) awaitRoom() bool {
	if a.Line.Full() {
		a.inflow.stall()
		defer a.inflow.resume()
	}
	return a.Line.AwaitRoom()
}

// Take takes what a request will cost out of the budget, waiting if it must. The
// request was received in so many bytes.
func (a *AppendStream[T]) Take(received int, cost int64) error {
	defer a.inflow.handOver(received)
	if a.server.Appends.TryAcquire(cost) {
		return nil
	}
	a.inflow.stall()
	defer a.inflow.resume()
	return a.server.Appends.Acquire(a.ctx, cost)
}
