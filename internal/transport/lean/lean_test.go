package lean

import (
	"bytes"
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	ordinary "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const maxMessage, maxCall = 64 << 20, 1 << 20

var codec = encoding.GetCodecV2(ordinary.Name)

// service has one stream, whose handler a test gives.
type service struct {
	*Server
	served  chan error
	address string
}

const streamMethod, oneMethod = "/test.Test/Stream", "/test.Test/One"

func serve(t *testing.T, handler func(grpc.ServerStream) error) *service {
	t.Helper()
	s := &service{served: make(chan error, 1), Server: newServer(handler)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = l.Addr().String()
	go func() { s.served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.Stop(ctx)
		require.NoError(t, <-s.served)
	})
	return s
}

func newServer(handler func(grpc.ServerStream) error) *Server {
	s := NewServer(Options{
		Codec: codec, MaxMessage: maxMessage, MaxCall: maxCall, Buffers: mem.DefaultBufferPool(),
		Intercept: func(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(service, stream)
		},
	})
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Test", Streams: []grpc.StreamDesc{{
		StreamName: "Stream", ClientStreams: true, ServerStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error { return handler(stream) },
	}, {
		StreamName: "One", ServerStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error { return handler(stream) },
	}}}, nil)
	return s
}

func (s *service) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", s.address)
}

func clientOf(dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{Dial: dial, Codec: codec, MaxMessage: maxMessage}
}

func (s *service) open(t *testing.T, ctx context.Context) grpc.ClientStream {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	stream, err := clientOf(s.dial).NewStream(ctx, streamMethod)
	require.NoError(t, err)
	return stream
}

func echo(stream grpc.ServerStream) error {
	for {
		m := new(wrapperspb.BytesValue)
		if err := stream.RecvMsg(m); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
}

func TestMessagesOfEveryLengthComeAsTheyWereSent(t *testing.T) {
	stream := serve(t, echo).open(t, t.Context())
	for _, length := range []int{0, 1, gathered - 4, gathered, gathered + 1, buffered - 9, buffered, buffered + 1, leastPiece + 7, 3*mostPiece + 1, 20 << 20} {
		sent := bytes.Repeat([]byte("0123456789abcdef!"), length/17+1)[:length]
		go func() { _ = stream.SendMsg(wrapperspb.Bytes(sent)) }()
		got := new(wrapperspb.BytesValue)
		require.NoError(t, stream.RecvMsg(got), length)
		require.True(t, bytes.Equal(sent, got.GetValue()), length)
	}
	require.NoError(t, stream.CloseSend())
	require.Equal(t, io.EOF, stream.RecvMsg(new(wrapperspb.BytesValue)))
}

func TestMessagesThatWaitForTheirReceiverAreAllThere(t *testing.T) {
	stream := serve(t, echo).open(t, t.Context())
	const count = 2000
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range count {
			_ = stream.SendMsg(wrapperspb.Bytes(bytes.Repeat([]byte{byte(i)}, i*7)))
		}
		_ = stream.CloseSend()
	})
	for i := range count {
		got := new(wrapperspb.BytesValue)
		require.NoError(t, stream.RecvMsg(got))
		require.Equal(t, bytes.Repeat([]byte{byte(i)}, i*7), append([]byte{}, got.GetValue()...))
	}
	require.Equal(t, io.EOF, stream.RecvMsg(new(wrapperspb.BytesValue)))
	sending.Wait()
}

func TestTheEndOfACallReachesItsClientWithDetails(t *testing.T) {
	s, err := status.New(codes.OutOfRange, "trimmed").WithDetails(&errdetails.ErrorInfo{Reason: "OFFSET_TRIMMED"})
	require.NoError(t, err)
	stream := serve(t, func(stream grpc.ServerStream) error {
		_ = stream.RecvMsg(new(wrapperspb.BytesValue))
		return s.Err() // with bytes on their way that nobody reads
	}).open(t, t.Context())
	go func() {
		for stream.SendMsg(wrapperspb.Bytes(make([]byte, 1<<20))) == nil {
		}
	}()
	err = stream.RecvMsg(new(wrapperspb.BytesValue))
	require.Equal(t, codes.OutOfRange, status.Code(err))
	require.Equal(t, "OFFSET_TRIMMED", status.Convert(err).Details()[0].(*errdetails.ErrorInfo).GetReason())
	require.Equal(t, err, stream.RecvMsg(new(wrapperspb.BytesValue)), "an end is for ever")
}

func TestAHandlerMayReturnWhileItStillReceives(t *testing.T) {
	received := make(chan error, 1)
	begun := make(chan struct{})
	stream := serve(t, func(stream grpc.ServerStream) error {
		go func() {
			close(begun)
			received <- stream.RecvMsg(new(wrapperspb.BytesValue))
		}()
		<-begun
		return status.Error(codes.Aborted, "enough")
	}).open(t, t.Context())
	require.Equal(t, codes.Aborted, status.Code(stream.RecvMsg(new(wrapperspb.BytesValue))))
	require.Error(t, <-received)
}

func TestMetadataReachesTheHandler(t *testing.T) {
	got := make(chan metadata.MD, 1)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer a: b", "x", "1", "x", "2")
	stream := serve(t, func(stream grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		got <- md
		return nil
	}).open(t, ctx)
	md := <-got
	require.Equal(t, []string{"Bearer a: b"}, md.Get("authorization"))
	require.Equal(t, []string{"1", "2"}, md.Get("x"))
	require.Equal(t, io.EOF, stream.RecvMsg(new(wrapperspb.BytesValue)))

	_, err := encodeCall("/m", metadata.Pairs("x", "1\nauthorization: other"))
	require.Error(t, err)
}

func TestACallThatNobodyServesSaysSo(t *testing.T) {
	s := serve(t, echo)
	stream, err := clientOf(s.dial).NewStream(t.Context(), "/test.Test/Other")
	require.NoError(t, err)
	require.Equal(t, codes.Unimplemented, status.Code(stream.RecvMsg(new(wrapperspb.BytesValue))))
}

func TestAClientThatGoesAwayEndsTheHandler(t *testing.T) {
	ended := make(chan error, 1)
	s := serve(t, func(stream grpc.ServerStream) error {
		err := stream.RecvMsg(new(wrapperspb.BytesValue))
		<-stream.Context().Done()
		ended <- err
		return err
	})
	ctx, leave := context.WithCancel(t.Context())
	stream := s.open(t, ctx)
	leave()
	require.Equal(t, codes.Canceled, status.Code(stream.RecvMsg(new(wrapperspb.BytesValue))))
	require.Equal(t, codes.Canceled, status.Code(<-ended))
}

func TestAStoppingServerCutsAClientThatTakesNothing(t *testing.T) {
	sending := make(chan struct{})
	s := serve(t, func(stream grpc.ServerStream) error {
		close(sending)
		for {
			if err := stream.SendMsg(wrapperspb.Bytes(make([]byte, 1<<20))); err != nil {
				return err
			}
		}
	})
	stream := s.open(t, t.Context())
	<-sending
	s.Stop(context.Background())
	for {
		if err := stream.RecvMsg(new(wrapperspb.BytesValue)); err != nil {
			require.Equal(t, codes.Unavailable, status.Code(err), "cut in the middle is no end")
			return
		}
	}
}

// streamTo is a stream to a server that serves it alone. served is closed when that has ended.
func streamTo(t *testing.T, s *Server) (stream grpc.ClientStream, served <-chan struct{}) {
	t.Helper()
	ours, theirs := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.serve(theirs)
	}()
	stream, err := clientOf(func(context.Context) (net.Conn, error) { return ours, nil }).NewStream(t.Context(), streamMethod)
	require.NoError(t, err)
	return stream, ended
}

// A handler that waits for something else than the client does not read, and nobody notices that
// the connection was closed.
func TestAStopEndsStreamsFromWhichNobodyReads(t *testing.T) {
	began := make(chan struct{})
	s := newServer(func(stream grpc.ServerStream) error {
		close(began)
		<-stream.Context().Done()
		return stream.Context().Err()
	})
	stream, served := streamTo(t, s)
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Stop(ctx)
	<-served
	require.Error(t, stream.RecvMsg(new(wrapperspb.BytesValue)))
}

// An append may wait for a majority for longer than a client may take to receive its answer.
func TestAnAnswerThatComesLateAfterAStopIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(func(stream grpc.ServerStream) error {
			time.Sleep(2 * stopTime)
			return stream.SendMsg(wrapperspb.Bytes([]byte("answer")))
		})
		stream, served := streamTo(t, s)
		s.Stop(t.Context())
		got := new(wrapperspb.BytesValue)
		require.NoError(t, stream.RecvMsg(got))
		require.Equal(t, "answer", string(got.GetValue()))
		require.Equal(t, io.EOF, stream.RecvMsg(got))
		<-served
	})
}

func TestWhoDoesNotSpeakTheProtocolHasDoneNothing(t *testing.T) {
	for name, answer := range map[string]string{"closes": "", "another protocol": "\x00\x00\x12\x04\x00\x00\x00\x00\x00", "text": "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = io.CopyN(io.Discard, theirs, int64(len(Magic)))
				go func() { _, _ = io.Copy(io.Discard, theirs) }()
				_, _ = io.WriteString(theirs, answer)
				_ = theirs.Close()
			}()
			_, err := clientOf(func(context.Context) (net.Conn, error) { return ours, nil }).NewStream(t.Context(), streamMethod)
			require.ErrorIs(t, err, ErrNotSpoken)
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	old := grpc.NewServer()
	defer old.Stop()
	go func() { _ = old.Serve(l) }()
	_, err = clientOf((&service{address: l.Addr().String()}).dial).NewStream(t.Context(), streamMethod)
	require.ErrorIs(t, err, ErrNotSpoken)
}

// A node that is rolled back serves the same clients.
func TestAServerThatNoLongerSpeaksTheProtocolIsAskedAgain(t *testing.T) {
	s := serve(t, echo)
	const settings = "\x00\x00\x18\x04\x00\x00\x00\x00\x00" // what HTTP/2 begins with
	for _, answer := range []string{"", settings + strings.Repeat("\x00", 0x18)} {
		var old atomic.Bool
		c := clientOf(func(ctx context.Context) (net.Conn, error) {
			if !old.Load() {
				return s.dial(ctx)
			}
			ours, theirs := net.Pipe()
			go func() {
				_, _ = io.CopyN(io.Discard, theirs, int64(len(Magic)))
				if answer != "" {
					go func() { _, _ = io.Copy(io.Discard, theirs) }()
					_, _ = io.WriteString(theirs, answer)
				}
				_ = theirs.Close()
			}()
			return ours, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := c.NewStream(ctx, streamMethod)
		require.NoError(t, err)
		require.True(t, c.accepted.Load())
		old.Store(true)
		for err == nil { // at once, or when it receives
			var stream grpc.ClientStream
			if stream, err = c.NewStream(ctx, streamMethod); err == nil {
				require.Equal(t, codes.Unavailable, status.Code(stream.RecvMsg(new(wrapperspb.BytesValue))))
				require.False(t, c.accepted.Load())
			}
		}
		old.Store(false)
		_, err = c.NewStream(ctx, streamMethod)
		require.NoError(t, err)
	}
}

// accepted answers a client's call and says nothing after that.
func accepted(t *testing.T, theirs net.Conn) (w *frameWriter) {
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	w = &frameWriter{to: theirs}
	require.NoError(t, w.write(acceptedKind, nil))
	return w
}

func TestASilentServerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go accepted(t, theirs)
		stream, err := clientOf(func(context.Context) (net.Conn, error) { return ours, nil }).NewStream(t.Context(), streamMethod)
		require.NoError(t, err)
		begun := time.Now()
		err = stream.RecvMsg(new(wrapperspb.BytesValue))
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Contains(t, err.Error(), "silent")
		require.LessOrEqual(t, time.Since(begun), lostTime+aliveTime)
	})
}

func TestAClientThatDoesNotReceiveMissesNoSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go accepted(t, theirs)
		stream, err := clientOf(func(context.Context) (net.Conn, error) { return ours, nil }).NewStream(t.Context(), streamMethod)
		require.NoError(t, err)
		time.Sleep(10 * lostTime)
		go func() { _ = (&frameWriter{to: theirs}).write(endKind, nil) }()
		require.Equal(t, io.EOF, stream.RecvMsg(new(wrapperspb.BytesValue)))
	})
}

func TestAQuietStreamLastsWhileBothEndsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		s := newServer(echo)
		served := make(chan struct{})
		go func() {
			defer close(served)
			s.serve(theirs)
		}()
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := clientOf(func(context.Context) (net.Conn, error) { return ours, nil }).NewStream(ctx, streamMethod)
		require.NoError(t, err)
		received := make(chan error, 1)
		go func() { received <- stream.RecvMsg(new(wrapperspb.BytesValue)) }()
		time.Sleep(time.Hour)
		require.NoError(t, stream.SendMsg(wrapperspb.Bytes([]byte("still there"))))
		require.NoError(t, <-received)
		cancel()
		<-served
	})
}

func TestAClientThatIsGoneWithoutAWordIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		s := newServer(echo)
		begun := time.Now()
		go func() {
			_, _ = io.WriteString(ours, Magic)
			call, _ := encodeCall(streamMethod, nil)
			_ = (&frameWriter{to: ours}).write(callKind, call)
		}()
		s.serve(theirs)
		require.LessOrEqual(t, time.Since(begun), idleTime+2*aliveTime+lingerTime)
	})
}

func TestAConnectionThatDoesNotSayWhatItIsForIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, sent := range []string{"", Magic[:3], Magic, Magic + "\x05\x00\x00\x00\x01/x", "no stream, but long enough"} {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.WriteString(ours, sent) }()
			s := newServer(echo)
			begun := time.Now()
			s.serve(theirs)
			_ = theirs.Close()
			_ = ours.Close()
			require.LessOrEqual(t, time.Since(begun), callTime)
		}
	})
}

// What has come of the only message of a client is counted nowhere: it is small, and comes soon.
func TestTheOnlyMessageOfAClientComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		go func() {
			call, _ := encodeCall(oneMethod, nil)
			_, _ = io.WriteString(ours, Magic)
			_ = (&frameWriter{to: ours}).write(callKind, call)
			for rest := "\x00\x00\x10\x00\x02"; ; rest = "some more" { // so that it is never silent
				if _, err := io.WriteString(ours, rest); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		begun := time.Now()
		var received error
		newServer(func(stream grpc.ServerStream) error {
			received = stream.RecvMsg(new(wrapperspb.BytesValue))
			return received
		}).serve(theirs)
		require.Equal(t, codes.Canceled, status.Code(received))
		require.LessOrEqual(t, time.Since(begun), callTime+lingerTime)
		require.NoError(t, ours.Close())
		time.Sleep(time.Second) // virtual; the client notices
	})
}

func TestTheOnlyMessageOfAClientIsSmall(t *testing.T) {
	s := serve(t, echo)
	for size, code := range map[int]codes.Code{maxCall - 16: codes.OK, maxCall + 1: codes.ResourceExhausted} {
		stream, err := clientOf(s.dial).NewStream(t.Context(), oneMethod)
		require.NoError(t, err)
		require.NoError(t, stream.SendMsg(wrapperspb.Bytes(make([]byte, size))))
		require.Equal(t, code, status.Code(stream.RecvMsg(new(wrapperspb.BytesValue))), size)
	}
}

func TestNoMessageIsTakenBeforeTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() { _, _ = io.WriteString(ours, Magic+"\x00\x00\x00\x04\x02and more") }()
		begun := time.Now()
		newServer(echo).serve(theirs)
		require.Zero(t, time.Since(begun), "it is refused by its header")
	})
}

func TestALengthAloneTakesNoMemory(t *testing.T) {
	header := "\x00\x00\x00\x04\x02" // 64 MiB
	taken := [aliveKind + 1]int{messageKind: maxMessage}
	r := &frameReader{from: strings.NewReader(header + "and little more"), pool: mem.NopBufferPool{}, limits: taken}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := r.next()
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2*leastPiece))

	r = &frameReader{from: strings.NewReader(header + "and little more"), large: []byte{}, limits: taken}
	runtime.ReadMemStats(&before)
	_, _, err = r.next()
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(3*mostPiece))

	r = &frameReader{from: strings.NewReader("\x01\x00\x00\x04\x02"), pool: mem.NopBufferPool{}, limits: taken}
	_, _, err = r.next()
	require.ErrorIs(t, err, errTooLarge)
}

// FuzzConnection lets a server read anything: it gives up, or answers, and takes no more
// memory than a few times what it was sent.
func FuzzConnection(f *testing.F) {
	call := "\x11\x00\x00\x00\x01" + streamMethod
	f.Add([]byte(Magic + call + "\x03\x00\x00\x00\x02\x0a\x01x\x00\x00\x00\x00\x03"))
	f.Add([]byte(Magic + call + "\xff\xff\xff\x03\x02\x0a"))
	f.Add([]byte(Magic + "\x14\x00\x00\x00\x01" + streamMethod + "\na:"))
	f.Add([]byte(Magic + call + "\x00\x00\x00\x00\x06\x00\x00\x00\x00\x04\x00\x00\x00\x00\x05"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := newServer(echo)
		s.serve(&recorded{from: bytes.NewReader(sent)})
	})
}

// recorded is a connection whose client has sent everything that it will.
type recorded struct {
	net.Conn
	from io.Reader
}

func (c *recorded) Read(into []byte) (int, error)    { return c.from.Read(into) }
func (*recorded) Write(b []byte) (int, error)        { return len(b), nil }
func (*recorded) Close() error                       { return nil }
func (*recorded) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
func (*recorded) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (*recorded) SetReadDeadline(time.Time) error    { return nil }
func (*recorded) SetWriteDeadline(t time.Time) error { return nil }
