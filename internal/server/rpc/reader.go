package rpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
)

const (
	// stallTime is how long a client may take to accept a chunk before it counts as stalled.
	stallTime = 100 * time.Millisecond
	// lookAtReader is the interval of further checks.
	lookAtReader = time.Second
)

// Reader reads a log for a client, within the node's memory for reads.
type Reader interface {
	// Drop releases chunks that were read ahead, and counts the chunks at the client as held by a
	// stalled client. If other readers need that memory, end is called. Drop may be called
	// concurrently with Next, and repeatedly.
	Drop(end func())
}

// WatchReader detects whether the client of the stream with ctx stalls while a chunk is sent, until
// stop is called.
func (s *Server) WatchReader(ctx context.Context, r Reader, log string) (stop func()) {
	end := sync.OnceFunc(func() {
		s.Warn("a client that does not take what it reads is disconnected: others need what it holds", "log", log)
		Disconnect(ctx)
	})
	var mu sync.Mutex
	var timer *time.Timer
	done := false
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		if done {
			return
		}
		r.Drop(end)
		timer.Reset(lookAtReader)
	}
	mu.Lock()
	timer = time.AfterFunc(stallTime, look)
	mu.Unlock()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done = true
		timer.Stop()
	}
}

// waiting is a message whose sender waits until gRPC has written it.
type waiting struct {
	message any
	done    chan struct{} // closed then
}

func (w *waiting) written() { close(w.done) }

// SendToReader sends a message to a reader and returns when it has been written. Without this wait,
// gRPC would queue up to two large messages for a stalled client outside the node's memory budget.
func (s *Server) SendToReader(stream grpc.ServerStream, message any) error {
	ctx := stream.Context()
	if grpc.ServerTransportStreamFromContext(ctx) == nil {
		return stream.SendMsg(message) // which returns when it has been written
	}
	w := &waiting{message, make(chan struct{})}
	if err := stream.SendMsg(w); err != nil {
		return err
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopping.Done():
		return ErrStopping
	}
}
