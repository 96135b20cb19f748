package rpc

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"strandline.dev/internal/transport/lean"
)

// Callers finds out who calls, before a service is called. from is the address of the
// client, and authorization what it says of itself, or nothing.
type Callers interface {
	// Call returns the context of a call.
	Call(ctx context.Context, from net.Addr, authorization string) (context.Context, error)
	// Stream returns the context of a stream, which may end with the caller's rights. end
	// is called after it.
	Stream(ctx context.Context, from net.Addr, authorization string) (c context.Context, end func(), err error)
}

// authorizationKey is the metadata that has a token, as HTTP's header of that name.
const authorizationKey = "authorization"

// shown is the address of a call's client, and what it says of itself.
func shown(ctx context.Context) (from net.Addr, authorization string) {
	from = nowhere{}
	if p, ok := peer.FromContext(ctx); ok {
		from = p.Addr
	}
	if values := metadata.ValueFromIncomingContext(ctx, authorizationKey); len(values) > 0 {
		authorization = values[0]
	}
	return from, authorization
}

// nowhere is the address of a client that has none.
type nowhere struct{}

func (nowhere) Network() string { return "" }
func (nowhere) String() string  { return "" }

// identifyCall is an interceptor: the handler's context knows who calls.
func (s *Server) identifyCall(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if s.options.Callers != nil {
		from, authorization := shown(ctx)
		known, err := s.options.Callers.Call(ctx, from, authorization)
		if err != nil {
			return nil, StatusOf(ctx, err)
		}
		ctx = known
	}
	return handler(ctx, request)
}

// identified calls a handler with a stream whose context knows who calls.
func (s *Server) identified(srv any, stream grpc.ServerStream, handler grpc.StreamHandler) error {
	if s.options.Callers == nil {
		return handler(srv, stream)
	}
	from, authorization := shown(stream.Context())
	ctx, end, err := s.options.Callers.Stream(stream.Context(), from, authorization)
	if err != nil {
		return StatusOf(stream.Context(), err)
	}
	defer end()
	return StatusOf(ctx, handler(srv, identifiedStream{stream, ctx}))
}

// identifiedStream is a stream with a context of its own.
type identifiedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s identifiedStream) Context() context.Context { return s.ctx }

// CanTry and TrySend implement trySender, where the stream itself does.
func (s identifiedStream) CanTry() bool {
	t, ok := s.ServerStream.(trySender)
	return ok && t.CanTry()
}

func (s identifiedStream) TrySend(m any) bool {
	t, ok := s.ServerStream.(trySender)
	return ok && t.TrySend(m)
}

// SendsFiles and SendFrom implement FileStream, where the stream itself does.
func (s identifiedStream) SendsFiles() bool {
	f, ok := s.ServerStream.(FileStream)
	return ok && f.SendsFiles()
}

func (s identifiedStream) SendFrom(first []byte, size int, middle func(lean.SendFile) error, last []byte) error {
	return s.ServerStream.(FileStream).SendFrom(first, size, middle, last)
}
