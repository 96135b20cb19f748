package lean

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// ErrNotSpoken means that the other end does not speak this protocol. It has processed nothing of
// the call.
var ErrNotSpoken = errors.New("the server does not support streams on their own connections")

// A Client opens streams to one server.
type Client struct {
	Dial  func(context.Context) (net.Conn, error)
	Codec encoding.CodecV2
	// MaxMessage is the limit on a received message, in bytes.
	MaxMessage int

	accepted atomic.Bool // whether the server accepted the last stream
}

// NewStream begins a call on a connection of its own, which is closed when ctx ends. Unless the
// server accepted the last stream, NewStream waits until it accepts this one, and returns
// ErrNotSpoken if it does not.
func (c *Client) NewStream(ctx context.Context, method string) (grpc.ClientStream, error) {
	conn, err := c.Dial(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	s := c.newStream(ctx, conn)
	md, _ := metadata.FromOutgoingContext(ctx)
	if err := s.begin(method, md); err != nil {
		s.close()
		return nil, s.why(err)
	}
	if !c.accepted.Load() {
		if err := s.awaitAccepted(); err != nil {
			s.close()
			if ctx.Err() != nil {
				return nil, status.FromContextError(ctx.Err()).Err()
			}
			return nil, ErrNotSpoken
		}
	}
	return s, nil
}

func (c *Client) newStream(ctx context.Context, conn net.Conn) *clientStream {
	s := &clientStream{client: c, ctx: ctx}
	s.init(conn, c.Codec, lostTime, func() {
		s.silent.Store(true)
		_ = conn.Close()
	})
	s.reader.large = []byte{}
	s.reader.limits[messageKind], s.reader.limits[endKind] = c.MaxMessage, maxEndBytes
	s.pulse.start()
	s.release = context.AfterFunc(ctx, func() {
		s.pulse.stop()
		_ = conn.Close()
	})
	return s
}

// clientStream implements grpc.ClientStream. At most one goroutine may receive and one may send
// at a time.
type clientStream struct {
	stream
	client   *Client
	ctx      context.Context
	release  func() bool
	accepted bool
	silent   atomic.Bool // whether the server was silent for lostTime
	over     error       // error of RecvMsg once it has failed
}

func (s *clientStream) begin(method string, md metadata.MD) error {
	call, err := encodeCall(method, md)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if _, err := io.WriteString(s.writer.to, Magic); err != nil {
		return err
	}
	return s.writer.write(callKind, call)
}

func (s *clientStream) awaitAccepted() error {
	k, _, err := s.next()
	if err == nil && k != acceptedKind || errors.Is(err, errTooLarge) {
		err = ErrNotSpoken // the answer is not a frame of this protocol
	}
	s.accepted = err == nil
	// A server that does not accept a stream as it did before may have been replaced by an older
	// one: the next stream waits for its answer again.
	s.client.accepted.Store(s.accepted)
	return unfinished(err)
}

// Context implements grpc.ClientStream.
func (s *clientStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ClientStream. If it returns io.EOF, the stream has ended, and RecvMsg
// returns the reason.
func (s *clientStream) SendMsg(m any) error {
	broken, err := s.send(m)
	if broken {
		return io.EOF
	}
	return err
}

// CloseSend implements grpc.ClientStream.
func (s *clientStream) CloseSend() error {
	_ = s.writer.write(lastKind, nil) // RecvMsg returns the reason
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (s *clientStream) RecvMsg(m any) error {
	if s.over != nil {
		return s.over
	}
	if err := s.receive(m); err != nil {
		s.over = s.why(err)
		s.close()
	}
	return s.over
}

func (s *clientStream) receive(m any) error {
	if !s.accepted {
		if err := s.awaitAccepted(); err != nil {
			return err
		}
	}
	k, payload, err := s.next()
	if err != nil {
		return unfinished(err) // the end frame is missing
	}
	defer payload.Free()
	switch k {
	case messageKind:
		if err := s.decode(payload, m); err != nil {
			return status.Errorf(codes.Internal, "decode: %v", err)
		}
		return nil
	case endKind:
		if err := decodeEnd(payload); err != nil {
			return err
		}
		return io.EOF
	}
	return status.Errorf(codes.Internal, "a frame of kind %d within a stream", k)
}

// InPlace is a message that may keep references to the bytes it was decoded from. They are valid
// until the next RecvMsg of the stream.
type InPlace interface{ DecodeInPlace(data []byte) error }

func (s *clientStream) decode(payload mem.BufferSlice, m any) error {
	if m, ok := m.(InPlace); ok && len(payload) == 1 {
		return m.DecodeInPlace(payload[0].ReadOnlyData())
	}
	return s.codec.Unmarshal(payload, m)
}

// why returns the status for an error of the connection, or io.EOF after the end.
func (s *clientStream) why(err error) error {
	if err == io.EOF {
		return err
	}
	if s.ctx.Err() != nil {
		return status.FromContextError(s.ctx.Err()).Err()
	}
	if _, is := status.FromError(err); is {
		return err
	}
	if errors.Is(err, errTooLarge) {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	if s.silent.Load() {
		return status.Errorf(codes.Unavailable, "the server was silent for %s", lostTime)
	}
	return status.Errorf(codes.Unavailable, "the connection broke: %v", err)
}

func (s *clientStream) close() {
	s.release()
	s.pulse.stop()
	_ = s.conn.Close()
}

// Header and Trailer implement grpc.ClientStream. The protocol has neither.
func (*clientStream) Header() (metadata.MD, error) { return nil, nil }
func (*clientStream) Trailer() metadata.MD         { return nil }
