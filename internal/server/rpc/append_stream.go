package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
)

// AppendStream is a stream of append requests. A separate goroutine receives them, the log decides
// them and makes them durable, and the handler's goroutine answers them in order.
//
// If the client disconnects, or the stream is cancelled, requests that were passed to the log are
// still appended and their answers are dropped: for the client the outcome is unknown. A request
// that was not completely received by then is never appended.
//
// When the server stops, it passes no more requests to the log, answers the earlier ones, and ends
// the stream with SHUTTING_DOWN.
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

// AppendCalls are the operations of a service on the requests of a stream.
type AppendCalls[T any] interface {
	// Receive receives the next request, which gets a place in the line. The error is
	// io.EOF after the last one.
	Receive() (*Place[T], error)
	// Drop ends a request that gets no answer.
	Drop(T)
	// Append passes a request to the log. The answer is later given to the line, from any
	// goroutine.
	Append(T)
	// Answer sends the answer of a request, by Send. The error ends the stream, io.EOF
	// without a failure.
	Answer(T) error
}

// NewAppendStream returns an AppendStream for a handler's stream, with a limit on requests that
// were received and not answered. At the limit the stream is not read.
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

// SendBy sends answers that need no waiting with TryAnswer of calls, for many streams in one
// goroutine. It must be called before Run, and does nothing if the stream does not support this.
func (a *AppendStream[T]) SendBy(stream any, try func(send func(m any) bool, value T) bool) {
	if s, ok := stream.(trySender); ok && s.CanTry() {
		a.Line.SendBy(&a.server.answers, func(value T) bool { return try(s.TrySend, value) })
	}
}

// Run serves the stream to its end. The error is a status, or an error for StatusOf.
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

// Send sends an answer. Over gRPC the answer may stay in a queue long after Send has returned.
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

// Context returns the context of the stream.
func (a *AppendStream[T]) Context() context.Context { return a.ctx }

// Waits notes that the receiver waits for a quota, until done is called.
func (a *AppendStream[T]) Waits() (done func()) {
	a.inflow.stall()
	return a.inflow.resume
}

// Take reserves the cost of a request in the budget, and waits if necessary. The cost depends on
// the number of received bytes.
func (a *AppendStream[T]) Take(received int, cost int64) error {
	defer a.inflow.handOver(received)
	if a.server.Appends.TryAcquire(cost) {
		return nil
	}
	a.inflow.stall()
	defer a.inflow.resume()
	return a.server.Appends.Acquire(a.ctx, cost)
}
