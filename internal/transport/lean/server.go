package lean

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

const (
	// callTime is the time limit for the call frame of a connection, and then for the message of
	// a client that sends only one.
	callTime = 10 * time.Second
	// lingerTime is the time limit for a client to notice the end of its stream; stopLingerTime is
	// that limit while the server stops; stopTime is the limit for a write then.
	lingerTime     = 5 * time.Second
	stopLingerTime = 500 * time.Millisecond
	stopTime       = 2 * time.Second
)

// Options are the options of a Server. All except TryWrite and SendFile are required.
type Options struct {
	Codec encoding.CodecV2
	// MaxMessage is the limit on a received message of a client that sends a stream of them,
	// MaxCall that on the message of a client that sends only one, in bytes.
	MaxMessage, MaxCall int
	Buffers             mem.BufferPool
	// Intercept is called for each stream. It has the contract of a gRPC interceptor.
	Intercept grpc.StreamServerInterceptor
	// TryWrite returns the function that writes to a connection without blocking, or nil if there
	// is none.
	TryWrite func(net.Conn) TryWrite
	// SendFile returns the function that sends bytes of files on a connection, and whether the
	// system itself sends them.
	SendFile func(net.Conn) (SendFile, bool)
}

// A Server serves the streams of registered services.
type Server struct {
	options  Options
	methods  map[string]method
	stopping context.Context
	stop     context.CancelFunc
	cut      context.Context // ends all streams, including those that no client reads
	cutAll   context.CancelFunc
	serving  sync.WaitGroup

	mu          sync.Mutex
	connections map[net.Conn]struct{}
	listeners   map[net.Listener]struct{}
}

type method struct {
	service any
	stream  *grpc.StreamDesc
}

// NewServer returns a server without services.
func NewServer(o Options) *Server {
	s := &Server{options: o, methods: map[string]method{}, connections: map[net.Conn]struct{}{}, listeners: map[net.Listener]struct{}{}}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.cut, s.cutAll = context.WithCancel(context.Background())
	return s
}

// RegisterService implements grpc.ServiceRegistrar for the streams of a service. It must be
// called before Serve.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, service any) {
	for i := range desc.Streams {
		s.methods["/"+desc.ServiceName+"/"+desc.Streams[i].StreamName] = method{service, &desc.Streams[i]}
	}
}

// Serve serves the connections of l, each of which begins with Magic. It returns nil after Stop
// was called or the listener was closed.
func (s *Server) Serve(l net.Listener) error {
	if !s.enter(func() { s.listeners[l] = struct{}{} }) {
		return l.Close()
	}
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed):
			return nil
		default:
			return err
		}
		if !s.enter(func() { s.connections[conn] = struct{}{} }) {
			_ = conn.Close()
			continue
		}
		go func() {
			defer s.leave(conn)
			s.serve(conn)
		}()
	}
}

// enter calls note, which records what Stop must end. It returns false, without the call, if Stop
// was called before.
func (s *Server) enter(note func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Err() != nil {
		return false
	}
	note()
	s.serving.Add(1)
	return true
}

func (s *Server) leave(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	delete(s.connections, conn)
	s.mu.Unlock()
	s.serving.Done()
}

// Stop stops accepting connections and waits for the handlers, which return by themselves when
// the server stops. When ctx ends, Stop closes the connections.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	s.stop()
	for l := range s.listeners {
		_ = l.Close()
		s.serving.Done()
	}
	clear(s.listeners)
	s.mu.Unlock()
	cut := context.AfterFunc(ctx, func() {
		s.cutAll()
		s.mu.Lock()
		defer s.mu.Unlock()
		for conn := range s.connections {
			_ = conn.Close()
		}
	})
	s.serving.Wait()
	cut()
}

// serve serves the one stream of a connection.
func (s *Server) serve(conn net.Conn) {
	stream := newServerStream(conn, s.options)
	defer stream.close()
	defer context.AfterFunc(s.cut, stream.cancel)()
	if s.accept(stream) != nil {
		return // the other end would not understand an answer
	}
	release := context.AfterFunc(s.stopping, stream.writer.hasten)
	defer release()
	m, ok := s.methods[stream.method]
	if !ok {
		s.end(stream, status.Errorf(codes.Unimplemented, "%q is not supported on its own connection: use gRPC", stream.method))
		return
	}
	if !m.stream.ClientStreams {
		stream.takeOne(s.options.MaxCall)
	}
	stream.pulse.start()
	info := &grpc.StreamServerInfo{FullMethod: stream.method, IsClientStream: m.stream.ClientStreams, IsServerStream: m.stream.ServerStreams}
	s.end(stream, s.options.Intercept(m.service, stream, info, m.stream.Handler))
}

func (s *Server) end(stream *serverStream, err error) {
	_ = stream.conn.SetReadDeadline(time.Now().Add(lingerTime))
	hasten := context.AfterFunc(s.stopping, func() { _ = stream.conn.SetReadDeadline(time.Now().Add(stopLingerTime)) })
	defer hasten()
	stream.end(err)
}

// accept reads Magic and the call frame, which must arrive within callTime.
func (s *Server) accept(stream *serverStream) error {
	conn := stream.conn
	stop := context.AfterFunc(s.stopping, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer stop()
	if err := conn.SetReadDeadline(time.Now().Add(callTime)); err != nil {
		return err
	}
	var magic [len(Magic)]byte
	if _, err := io.ReadFull(conn, magic[:]); err != nil || string(magic[:]) != Magic {
		return fmt.Errorf("not a stream: %q, %w", magic, err)
	}
	if err := stream.begin(s.options.MaxMessage); err != nil {
		return err
	}
	if !stop() {
		return s.stopping.Err()
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return stream.writer.write(acceptedKind, nil)
}
