package lean

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// serverStream is the one stream of a connection; it implements grpc.ServerStream. One
// goroutine at a time receives, and one sends.
type serverStream struct {
	stream
	method string
	// oneMessage: the client sends one message, and is only listened to for its end
	// after that.
	oneMessage bool

	receiving sync.Mutex // held while the connection is read
	received  error      // of RecvMsg, once it has failed

	ctx      context.Context
	cancel   context.CancelFunc
	watching sync.WaitGroup
}

func newServerStream(conn net.Conn, o Options) *serverStream {
	s := &serverStream{}
	s.init(conn, o.Codec, idleTime, func() { _ = conn.Close() })
	s.reader.pool = o.Buffers
	if o.TryWrite != nil {
		s.writer.try = o.TryWrite(s.writer.to)
	}
	if o.SendFile != nil {
		s.writer.sendFile, s.writer.direct = o.SendFile(s.writer.to)
	}
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: s.conn.RemoteAddr(), LocalAddr: s.conn.LocalAddr()})
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// begin receives the call. Until then nothing else is taken from the client.
func (s *serverStream) begin(maxMessage int) error {
	s.reader.limits[callKind] = maxCallBytes
	k, payload, err := s.reader.next()
	if err != nil || k != callKind {
		return fmt.Errorf("no call: kind %d, %w", k, err)
	}
	method, md, err := decodeCall(payload)
	if err != nil {
		return err
	}
	s.method, s.ctx = method, metadata.NewIncomingContext(s.ctx, md)
	s.reader.limits[callKind], s.reader.limits[messageKind] = 0, maxMessage
	return nil
}

// takeOne has the stream take one message, of at most so many bytes, which has to come soon: until it has,
// it holds memory that no handler knows of.
func (s *serverStream) takeOne(maxMessage int) {
	s.oneMessage, s.reader.limits[messageKind] = true, maxMessage
	_ = s.conn.SetReadDeadline(time.Now().Add(callTime)) // if that fails, so does reading
}

// Context implements grpc.ServerStream. It ends when the connection does, which is
// noticed while a message is received or after the last one.
func (s *serverStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ServerStream. The message is on its way when it returns.
func (s *serverStream) SendMsg(m any) error {
	broken, err := s.send(m)
	if broken {
		s.cancel()
		return status.Errorf(codes.Unavailable, "send: %v", err)
	}
	return err
}

// TrySend sends a message if that needs no waiting, and reports whether it did. If not, a
// part of it may be on its way: it is sent again, by SendMsg, and nothing before it.
func (s *serverStream) TrySend(m any) bool {
	data, err := s.codec.Marshal(m)
	if err != nil {
		return false
	}
	defer data.Free()
	return s.writer.tryWrite(data)
}

// CanTry reports whether TrySend can do anything.
func (s *serverStream) CanTry() bool { return s.writer.try != nil }

// RecvMsg implements grpc.ServerStream.
func (s *serverStream) RecvMsg(m any) error {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	if s.received != nil {
		return s.received
	}
	k, payload, err := s.next()
	switch {
	case errors.Is(err, errTooLarge):
		return s.discard(status.Error(codes.ResourceExhausted, err.Error()))
	case err != nil:
		s.received = status.Errorf(codes.Canceled, "the client is gone: %v", err)
		s.cancel()
		return s.received
	case k == lastKind:
		s.received = io.EOF
		s.watch()
		return io.EOF
	case k != messageKind:
		return s.discard(status.Errorf(codes.InvalidArgument, "a frame of kind %d within a stream", k))
	}
	err = s.codec.Unmarshal(payload, m)
	payload.Free()
	if err != nil {
		if _, is := status.FromError(err); !is {
			err = status.Errorf(codes.Internal, "decode: %v", err)
		}
		return s.discard(err)
	}
	if s.oneMessage {
		_ = s.conn.SetReadDeadline(time.Time{})
		s.received = io.EOF
		s.watch()
	}
	return nil
}

// discard ends receiving with an error, and reads on for nothing: a client that is still
// sending could not receive an answer before it is done.
func (s *serverStream) discard(err error) error {
	s.received = err
	s.watching.Go(func() {
		s.receiving.Lock()
		defer s.receiving.Unlock()
		_, _ = io.Copy(io.Discard, s.conn)
		s.cancel()
	})
	return err
}

// watch ends the context when the client, which sends nothing any more, goes away.
func (s *serverStream) watch() {
	s.watching.Go(func() {
		s.receiving.Lock()
		defer s.receiving.Unlock()
		for {
			k, _, err := s.next()
			if err != nil || k != lastKind {
				s.cancel()
				return
			}
		}
	})
}

// end sends how the call ended, and waits until the client has noticed: closing a
// connection with bytes that were not read would take the end from it.
func (s *serverStream) end(err error) {
	s.pulse.stop()
	s.cancel()
	if s.writer.write(endKind, encodeEnd(err)) != nil {
		return
	}
	if half, ok := s.writer.to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	// A handler may return while another goroutine of it still receives.
	s.receiving.Lock()
	defer s.receiving.Unlock()
	s.received = s.ctx.Err()
	_, _ = io.Copy(io.Discard, s.conn)
}

func (s *serverStream) close() {
	s.pulse.stop()
	s.cancel()
	_ = s.conn.Close()
	s.watching.Wait()
}

// SetHeader, SendHeader and SetTrailer implement grpc.ServerStream. There are none.
func (*serverStream) SetHeader(metadata.MD) error  { return nil }
func (*serverStream) SendHeader(metadata.MD) error { return nil }
func (*serverStream) SetTrailer(metadata.MD)       {}
