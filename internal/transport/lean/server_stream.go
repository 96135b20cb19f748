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

// serverStream is the one stream of a connection; it implements grpc.ServerStream. At most one
// goroutine may receive and one may send at a time.
type serverStream struct {
	stream
	method string
	// oneMessage is set if the client sends one message. After it the connection is read only to
	// detect its end.
	oneMessage bool

	receiving sync.Mutex // held while the connection is read
	received  error      // error of RecvMsg once it has failed

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

// begin receives the call frame. No other frame is accepted before it.
func (s *serverStream) begin(maxMessage int) error {
	s.reader.limits[callKind] = maxCallBytes
	k, payload, err := s.reader.next()
	if err != nil || k != callKind {
		return fmt.Errorf("not a call: kind %d, %w", k, err)
	}
	method, md, err := decodeCall(payload)
	if err != nil {
		return err
	}
	s.method, s.ctx = method, metadata.NewIncomingContext(s.ctx, md)
	s.reader.limits[callKind], s.reader.limits[messageKind] = 0, maxMessage
	return nil
}

// takeOne limits the stream to one message of at most maxMessage bytes, which must arrive within
// callTime: until then the message holds memory that no handler accounts for.
func (s *serverStream) takeOne(maxMessage int) {
	s.oneMessage, s.reader.limits[messageKind] = true, maxMessage
	_ = s.conn.SetReadDeadline(time.Now().Add(callTime)) // if this fails, reading fails too
}

// Context implements grpc.ServerStream. The context ends when the connection does, which is
// detected while a message is received or after the last one.
func (s *serverStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ServerStream. It returns after the message was written to the
// connection.
func (s *serverStream) SendMsg(m any) error {
	broken, err := s.send(m)
	if broken {
		s.cancel()
		return status.Errorf(codes.Unavailable, "send: %v", err)
	}
	return err
}

// TrySend sends a message if this is possible without blocking, and reports whether it did. If it
// returns false, part of the message may have been sent: the caller must send the message with
// SendMsg, before any other.
func (s *serverStream) TrySend(m any) bool {
	data, err := s.codec.Marshal(m)
	if err != nil {
		return false
	}
	defer data.Free()
	return s.writer.tryWrite(data)
}

// CanTry reports whether the connection supports TrySend.
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
		s.received = status.Errorf(codes.Canceled, "the client disconnected: %v", err)
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

// discard ends receiving with an error, and reads and discards the rest: a client that is still
// sending could not receive an answer before it has finished.
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

// watch ends the context when the client closes the connection. The client sends no more
// messages.
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

// end sends the result of the call and waits until the client has noticed it: if a connection
// with unread bytes were closed, the client could lose the end frame.
func (s *serverStream) end(err error) {
	s.pulse.stop()
	s.cancel()
	if s.writer.write(endKind, encodeEnd(err)) != nil {
		return
	}
	if half, ok := s.writer.to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	// A handler may return while another of its goroutines still receives.
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

// SetHeader, SendHeader and SetTrailer implement grpc.ServerStream. The protocol has neither.
func (*serverStream) SetHeader(metadata.MD) error  { return nil }
func (*serverStream) SendHeader(metadata.MD) error { return nil }
func (*serverStream) SetTrailer(metadata.MD)       {}
