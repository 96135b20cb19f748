package rpc

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"strandline.dev/internal/transport/wire"
)

// Local is a connection with the services of a server inside the process, for ports that translate
// another protocol. After admission its calls are handled like those of gRPC, with messages encoded
// by the same codec. The peer and metadata of a call come from its context, in the form in which
// gRPC adds them to a handler's context.
//
// Messages are not queued: SendMsg of a client's stream returns after the handler has decoded the
// message. SendMsg of a handler returns when the client requests the next message or has left.
type Local struct {
	server *Server

	unary   map[string]localCall
	streams map[string]localStreams

	mu      sync.Mutex // for calls to begin before Stop waits for them
	calls   sync.WaitGroup
	cut     context.Context // ends when calls that are under way must
	cutOff  context.CancelFunc
	stopped bool
}

type localCall struct {
	service any
	handle  grpc.MethodHandler
}

type localStreams struct {
	service any
	desc    *grpc.StreamDesc
}

func newLocal(s *Server) *Local {
	l := &Local{server: s, unary: map[string]localCall{}, streams: map[string]localStreams{}}
	l.cut, l.cutOff = context.WithCancel(context.Background())
	return l
}

// register adds a service, whose calls admit their callers.
func (l *Local) register(desc *grpc.ServiceDesc, service any) {
	for i := range desc.Methods {
		l.unary["/"+desc.ServiceName+"/"+desc.Methods[i].MethodName] = localCall{service, desc.Methods[i].Handler}
	}
	for i := range desc.Streams {
		l.streams["/"+desc.ServiceName+"/"+desc.Streams[i].StreamName] = localStreams{service, &desc.Streams[i]}
	}
}

// Sends reports whether a method exists, and whether its client sends more than one request.
func (l *Local) Sends(method string) (many, served bool) {
	if s, ok := l.streams[method]; ok {
		return s.desc.ClientStreams, true
	}
	_, ok := l.unary[method]
	return false, ok
}

// Admit identifies the caller from the peer and the metadata of a context, and refuses a caller
// that may not call a method, before the request is read. It returns the context for the call.
func (l *Local) Admit(ctx context.Context, method string) (context.Context, error) {
	return l.server.admit(l.server.identify(ctx), method)
}

// AdmitLarge refuses a caller without the right that a method needs, before a large request is
// decoded, see Callers. Requests of up to smallCall bytes are not large.
func (l *Local) AdmitLarge(ctx context.Context, method string, bytes int, named func() (string, bool)) error {
	if bytes <= smallCall || l.server.options.Callers == nil {
		return nil
	}
	return StatusOf(ctx, l.server.options.Callers.AdmitLarge(ctx, method, bytes, named))
}

// begin returns the context of a call. Stop waits for the call and may cancel it. The caller must
// call end after it.
func (l *Local) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return nil, nil, StatusOf(ctx, ErrStopping)
	}
	l.calls.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(l.cut, cancel)
	return ctx, func() { release(); cancel(); l.calls.Done() }, nil
}

// stop accepts no new calls and returns when all calls have ended. It cancels them when ctx ends.
func (l *Local) stop(ctx context.Context) {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	defer context.AfterFunc(ctx, l.cutOff)()
	l.calls.Wait()
}

// Invoke implements grpc.ClientConnInterface.
func (l *Local) Invoke(ctx context.Context, method string, q, answer any, _ ...grpc.CallOption) error {
	call, ok := l.unary[method]
	if !ok {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	data, err := wire.Codec.Marshal(q)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	defer data.Free()
	from, err := call.handle(call.service, ctx, func(into any) error { return unmarshal(serverCodec, data, into) }, nil)
	if err != nil {
		return StatusOf(ctx, err)
	}
	answered, err := serverCodec.Marshal(from)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	defer answered.Free()
	return unmarshal(wire.Codec, answered, answer)
}

func unmarshal(c interface {
	Unmarshal(mem.BufferSlice, any) error
}, data mem.BufferSlice, into any) error {
	err := c.Unmarshal(data, into)
	if _, is := status.FromError(err); err != nil && !is {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return err
}

// NewStream implements grpc.ClientConnInterface. The stream ends with ctx.
func (l *Local) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, ok := l.streams[method]
	if !ok {
		return nil, status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	ctx, end, err := l.begin(context.WithValue(ctx, localKey{}, true))
	if err != nil {
		return nil, err
	}
	s := &localStream{ctx: ctx, many: stream.desc.ClientStreams, up: make(chan mem.BufferSlice), down: make(chan mem.BufferSlice), decoded: make(chan struct{}), taken: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer end()
		info := &grpc.StreamServerInfo{FullMethod: method, IsClientStream: stream.desc.ClientStreams, IsServerStream: stream.desc.ServerStreams}
		s.err = StatusOf(ctx, l.server.admitStream(stream.service, localServer{s}, info, stream.desc.Handler))
		close(s.ended)
	}()
	return localClient{s}, nil
}

// localKey is of the context of a stream of a Local.
type localKey struct{}

// IsLocal reports whether the context belongs to a stream of a Local. Messages of such a stream
// should be small, because they become larger in the other protocol.
func IsLocal(ctx context.Context) bool {
	local, _ := ctx.Value(localKey{}).(bool)
	return local
}

// localStream is a stream between two goroutines.
type localStream struct {
	ctx      context.Context
	many     bool // the client sends more than one message
	up, down chan mem.BufferSlice
	decoded  chan struct{} // the handler has decoded what it received
	taken    chan struct{} // the client no longer needs the message that it received before
	sent     sync.Once     // closes up
	owes     bool          // the client has received a message and not released it yet
	ended    chan struct{} // the handler has returned
	err      error         // the handler's error
}

// localClient is the client's end; at most one goroutine may send and one receive at a time.
type localClient struct{ *localStream }

func (c localClient) Context() context.Context     { return c.ctx }
func (c localClient) Header() (metadata.MD, error) { return nil, nil }
func (c localClient) Trailer() metadata.MD         { return nil }

func (c localClient) CloseSend() error {
	c.sent.Do(func() { close(c.up) })
	return nil
}

func (c localClient) SendMsg(m any) error {
	data, err := wire.Codec.Marshal(m)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	select {
	case c.up <- data:
	case <-c.ended:
		data.Free()
		return c.unsent()
	}
	select {
	case <-c.decoded:
		return nil
	case <-c.ended:
		return c.unsent()
	}
}

// unsent returns the error of SendMsg after the handler has ended: RecvMsg returns the actual
// error.
func (c localClient) unsent() error {
	if c.many {
		return io.EOF
	}
	return nil
}

func (c localClient) RecvMsg(m any) error {
	if c.owes {
		c.owes = false
		select {
		case c.taken <- struct{}{}:
		case <-c.ended:
		}
	}
	select {
	case data := <-c.down:
		c.owes = true
		defer data.Free()
		return unmarshal(wire.Codec, data, m)
	case <-c.ended:
		if c.err == nil {
			return io.EOF
		}
		return c.err
	}
}

// localServer is the handler's end.
type localServer struct{ *localStream }

func (s localServer) Context() context.Context     { return s.ctx }
func (s localServer) SetHeader(metadata.MD) error  { return nil }
func (s localServer) SendHeader(metadata.MD) error { return nil }
func (s localServer) SetTrailer(metadata.MD)       {}

func (s localServer) SendMsg(m any) error {
	data, err := serverCodec.Marshal(m)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	select {
	case s.down <- data:
	case <-s.ctx.Done():
		data.Free()
		return status.FromContextError(s.ctx.Err()).Err()
	}
	select {
	case <-s.taken:
		return nil
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s localServer) RecvMsg(m any) error {
	select {
	case data, more := <-s.up:
		if !more {
			return io.EOF
		}
		defer data.Free()
		if err := unmarshal(serverCodec, data, m); err != nil {
			return err
		}
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
	select {
	case s.decoded <- struct{}{}:
		return nil
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}
