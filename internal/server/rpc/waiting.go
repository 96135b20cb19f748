package rpc

import "google.golang.org/grpc"

// waiting is a message whose sender waits until gRPC has written it.
type waiting struct {
	message any
	done    chan struct{} // closed then
}

func (w *waiting) written() { close(w.done) }

// SendToReader sends a message to a reader and returns when it has been written: gRPC takes a large message, and
// one more, of a client that takes nothing, and what it has taken is in no part of the node's memory.
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
