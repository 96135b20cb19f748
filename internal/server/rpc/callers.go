package rpc

import (
	"context"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"strandline.dev/internal/transport/lean"
)

// Callers identifies the caller before a service is called or a request is decoded. from is the
// address of the client, and authorization its Authorization header, or empty.
type Callers interface {
	// Call returns the context of a call or a stream with its caller.
	Call(ctx context.Context, from net.Addr, authorization string) (context.Context, error)
	// Proved reports whether the caller of a context from Call has authenticated, and Enforced
	// whether it must.
	Proved(ctx context.Context) bool
	Enforced() bool
	// Admit refuses a caller that may not call a method, regardless of the object of the call.
	Admit(ctx context.Context, method string) error
	// AdmitLarge refuses a caller without the right that a method needs, before a large request is
	// decoded. named returns the name in its first field.
	AdmitLarge(ctx context.Context, method string, bytes int, named func() (string, bool)) error
	// Whose returns the key by which the resources of a client are counted: its principal, or else
	// its address.
	Whose(ctx context.Context, from net.Addr) string
	// Slow delays the caller, or the client at an address, if too many of its requests were refused
	// recently. SlowRefused returns a function that does so between the requests of a stream, if
	// requests of this stream were refused.
	Slow(ctx context.Context, from net.Addr)
	SlowRefused(ctx context.Context) (slow func())
	// Connected counts a connection of a client among the most connections of a port, until left is
	// called. end closes the connection without waiting. proved must be called with the context from
	// Call of each call whose caller has authenticated; its error refuses the call.
	Connected(port string, most int, from net.Addr, end func()) (proved func(ctx context.Context) error, left func())
	// PaceCall waits until the quota of the caller, or of the client at an address, allows a call of a
	// method. Its error refuses the call.
	PaceCall(ctx context.Context, method string, from net.Addr) error
	// Stream returns the context of a stream, which may end with the caller's rights. end
	// is called after it. The error refuses the stream.
	Stream(ctx context.Context) (c context.Context, end func(), err error)
}

// authorizationKey is the metadata that has a token, as HTTP's header of that name.
const authorizationKey = "authorization"

// shown returns the address of a call's client and its Authorization header.
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

// identification is the result of Callers.Call for a context.
type identification struct{ refusal error }

type identificationKey struct{}

// identify returns a context that contains the caller, or the reason why its credentials were
// refused.
func (s *Server) identify(ctx context.Context) context.Context {
	if s.options.Callers == nil {
		return ctx
	}
	from, authorization := shown(ctx)
	known, err := s.options.Callers.Call(ctx, from, authorization)
	if err != nil {
		return context.WithValue(ctx, identificationKey{}, identification{err})
	}
	if c, ok := from.(Prover); ok && s.options.Callers.Proved(known) {
		if err := c.ProvedBy(known); err != nil {
			return context.WithValue(ctx, identificationKey{}, identification{err})
		}
	}
	return context.WithValue(known, identificationKey{}, identification{})
}

// tap handles the headers of a gRPC call before more of it is received: before it authenticates, a
// client may not send enough for a large request with a token. Nothing of a call that is refused
// here is kept.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	method := info.FullMethodName
	one, served := s.serves()[method]
	if !served {
		method = unknownMethod // it is any text that the client likes, and a refusal is audited with it
	}
	ctx, err := s.admit(s.identify(ctx), method)
	if err == nil && one && s.options.Callers != nil {
		ctx = awaitRequest(ctx)
	}
	return ctx, err
}

// awaited is the only request of a call, until it has arrived. Until then gRPC buffers it, up to
// MaxRequestBytes for each stream, and without a time limit.
type awaited struct{ late *time.Timer }

type awaitedKey struct{}

// awaitRequest returns a context that ends if the request of a call does not come within requestTime.
func awaitRequest(ctx context.Context) context.Context {
	ctx, end := context.WithCancel(ctx)
	a := awaited{time.AfterFunc(requestTime, end)}
	context.AfterFunc(ctx, func() { a.late.Stop() })
	return context.WithValue(ctx, awaitedKey{}, a)
}

// hasCome ends waiting for the request of a call.
func hasCome(ctx context.Context) {
	if a, ok := ctx.Value(awaitedKey{}).(awaited); ok {
		a.late.Stop()
	}
}

// unknownMethod stands for all methods that do not exist.
const unknownMethod = "/unknown"

// methods returns all methods served over HTTP/2, and whether their clients send a single request.
func (s *Server) methods() map[string]bool {
	all := map[string]bool{}
	for service, info := range s.GetServiceInfo() {
		for _, m := range info.Methods {
			all["/"+service+"/"+m.Name] = !m.IsClientStream
		}
	}
	return all
}

// admit refuses a call of a method if its caller may not call it at all, before the request is
// decoded.
func (s *Server) admit(ctx context.Context, method string) (context.Context, error) {
	if s.options.Callers == nil {
		return ctx, nil
	}
	found, ok := ctx.Value(identificationKey{}).(identification)
	if !ok { // a stream without HTTP/2
		ctx = s.identify(ctx)
		found, _ = ctx.Value(identificationKey{}).(identification)
	}
	err := found.refusal
	if err == nil {
		err = s.options.Callers.Admit(ctx, method)
	}
	if err != nil {
		s.slow(ctx)
	}
	return ctx, StatusOf(ctx, err)
}

// slow delays a caller that is refused too often. In gRPC's tap this delays the whole connection,
// on which no client has authenticated; later it delays one call.
func (s *Server) slow(ctx context.Context) {
	if s.options.Callers == nil {
		return
	}
	from, _ := shown(ctx)
	s.options.Callers.Slow(ctx, from)
}

// pace delays a call until the quota of its caller allows it, or refuses it.
func (s *Server) pace(ctx context.Context, method string) error {
	if s.options.Callers == nil {
		return nil
	}
	from, _ := shown(ctx)
	return StatusOf(ctx, s.options.Callers.PaceCall(ctx, method, from))
}

// admitting returns a service whose calls are admitted before they are decoded. An interceptor
// admits its streams.
func (s *Server) admitting(service *grpc.ServiceDesc) *grpc.ServiceDesc {
	out := *service
	out.Methods = slices.Clone(service.Methods)
	for i := range out.Methods {
		handle, method := out.Methods[i].Handler, "/"+service.ServiceName+"/"+out.Methods[i].MethodName
		out.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			hasCome(ctx)
			ctx, err := s.admit(ctx, method)
			if err != nil {
				return nil, err
			}
			s.slow(ctx)
			if err := s.pace(ctx, method); err != nil {
				return nil, err
			}
			return handle(srv, ctx, func(into any) error { return s.decode(ctx, method, decode, into) }, interceptor)
		}
	}
	return &out
}

// decode decodes a request into a message, unless it is large and its caller may not send it: two
// bytes of a list can become a structure of two hundred.
func (s *Server) decode(ctx context.Context, method string, receive func(any) error, into any) error {
	if _, admits := into.(Admission); admits {
		return receive(into)
	}
	a := admitted{server: s, ctx: ctx, method: method, into: into}
	if err := receive(&a); err != nil {
		return err
	}
	return StatusOf(ctx, a.refusal)
}

// admitted is the Admission of a request that is received as a whole before its handler sees it.
type admitted struct {
	server  *Server
	ctx     context.Context
	method  string
	into    any
	refusal error
}

// Admit implements Admission.
func (a *admitted) Admit(data mem.BufferSlice) (any, error) {
	n := data.Len()
	inflowOf(a.ctx).handOverCall(n)
	if n > MaxCallBytes {
		return nil, tooLargeCall(n)
	}
	if n > smallCall && a.server.options.Callers != nil {
		a.refusal = a.server.options.Callers.AdmitLarge(a.ctx, a.method, n, func() (string, bool) { return Name(data, 1, longestName) })
	}
	if a.refusal != nil {
		return nil, nil
	}
	return a.into, nil
}

// identified calls a handler with a stream whose context contains the caller.
func (s *Server) identified(srv any, stream grpc.ServerStream, method string, handler grpc.StreamHandler) error {
	if s.options.Callers == nil {
		return handler(srv, stream)
	}
	ctx, err := s.admit(stream.Context(), method)
	if err != nil {
		return err
	}
	within, end, err := s.options.Callers.Stream(ctx)
	if err != nil {
		return StatusOf(ctx, err)
	}
	ctx = within
	defer end()
	s.slow(ctx)
	if err := s.pace(ctx, method); err != nil {
		return err
	}
	return StatusOf(ctx, handler(srv, identifiedStream{stream, ctx, s, method}))
}

// identifiedStream is a stream with its own context. It decodes messages only for callers that may
// send them.
type identifiedStream struct {
	grpc.ServerStream
	ctx    context.Context
	server *Server
	method string
}

func (s identifiedStream) RecvMsg(into any) error {
	err := s.server.decode(s.ctx, s.method, s.ServerStream.RecvMsg, into)
	hasCome(s.ctx)
	return err
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
