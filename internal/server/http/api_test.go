package httpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

// logs answer streams as a test says.
type logs struct {
	strandlinev1.UnimplementedLogServiceServer
	append func(grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error
	read   func(*strandlinev1.ReadRequest, grpc.ServerStreamingServer[strandlinev1.ReadResponse]) error
}

func (l logs) Append(s grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error {
	return l.append(s)
}

func (l logs) Read(q *strandlinev1.ReadRequest, s grpc.ServerStreamingServer[strandlinev1.ReadResponse]) error {
	return l.read(q, s)
}

var appended = &strandlinev1.AppendResponse{Result: &strandlinev1.AppendResponse_Appended{Appended: &strandlinev1.Appended{EndOffset: 1}}}

// byToken knows callers by what their header says, and lets them do everything.
type byToken struct{ unenforced }

func (byToken) May(verbs.Caller, *guard.Verb, string) error { return nil }

func (byToken) Whose(ctx context.Context, _ net.Addr) string {
	sent, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(sent.Get("authorization"), " ")
}

// calls serves logs, with so many bytes for texts of requests, and for answers.
func calls(t *testing.T, l logs, bytes int64) (*Server, Options) {
	t.Helper()
	services := rpc.New(rpc.Options{})
	strandlinev1.RegisterLogServiceServer(services, l)
	o := Options{Callers: byToken{}, Calls: services.Local(), Texts: budget.NewArriving(bytes), SentTexts: budget.NewArriving(bytes)}
	s, err := New(new(fakeNode), o)
	require.NoError(t, err)
	t.Cleanup(func() { services.Stop(context.Background()) })
	return s, o
}

// listen serves on a port.
func (s *Server) listen(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Stop(ctx)
		require.NoError(t, <-served)
	})
	return l.Addr().String()
}

// begin sends the headers of a call, and of its requests what is given: a chunk.
func begin(t *testing.T, address, method, token, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = fmt.Fprintf(conn, "POST /strandline.v1.LogService/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
		method, token, len(text), text)
	require.NoError(t, err)
	return conn
}

// end is that of requests in chunks.
const end = "0\r\n\r\n"

// slowClient is a client of a stream of requests that sends the middle of one when it is no longer waited for: when its
// time is over, or the answer has ended.
type slowClient struct {
	http.ResponseWriter
	asked, late chan struct{}
	text        []string
}

func (c *slowClient) Read(into []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, errors.New("it has left")
	}
	if len(c.text) == 1 {
		close(c.asked)
		<-c.late
	}
	n := copy(into, c.text[0])
	if c.text[0] = c.text[0][n:]; c.text[0] == "" {
		c.text = c.text[1:]
	}
	return n, nil
}

func (c *slowClient) Close() error { return nil }

func (c *slowClient) SetReadDeadline(at time.Time) error {
	if !at.IsZero() && time.Now().After(at) {
		close(c.late)
	}
	return nil
}

func TestARequestThatIsBeingDecodedWhenItsStreamEndsHoldsNothing(t *testing.T) {
	var client *slowClient
	s, o := calls(t, logs{append: func(grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error {
		<-client.asked
		return errors.New("this ends first")
	}}, 1<<20)
	client = &slowClient{
		ResponseWriter: httptest.NewRecorder(), asked: make(chan struct{}), late: make(chan struct{}),
		text: []string{`{"log":"orders","records":[{"value":"`, strings.Repeat("x", 300)},
	}
	q := httptest.NewRequest(http.MethodPost, "/strandline.v1.LogService/Append", client)
	q.Header.Set("Content-Type", "application/json")
	s.http.Handler.ServeHTTP(client, q)
	select {
	case <-client.late:
	default:
		close(client.late)
		require.Fail(t, "the call has ended, and its request is still being decoded")
	}
	require.Zero(t, o.Texts.Used())
	require.Empty(t, client.text, "it was decoded on")
	require.NotContains(t, client.ResponseWriter.(*httptest.ResponseRecorder).Body.String(), "it has left", "the stream has ended before")
}

// What is left of the requests of a stream would be taken for other requests, by a proxy for those of another client.
func TestAConnectionOnWhichAStreamsRequestsAreLeftHasNoOtherRequests(t *testing.T) {
	s, _ := calls(t, logs{append: func(stream grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		return stream.Send(appended)
	}}, 1<<20)
	conn := begin(t, s.listen(t), "Append", "", `{"log":"orders"}`+"\n{")
	from := bufio.NewReader(conn)
	r, err := http.ReadResponse(from, nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, r.Body)
	require.NoError(t, err, "the answer is whole")
	_, err = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	rest, _ := io.ReadAll(from)
	require.Empty(t, string(rest))
}

func TestAnswersDoNotWaitForWhatRequestsHold(t *testing.T) {
	received, held := make(chan struct{}, 2), make(chan struct{})
	s, o := calls(t, logs{append: func(stream grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		received <- struct{}{}
		<-held
		if err := stream.Send(appended); err != nil {
			return err
		}
		_, err := stream.Recv()
		return err
	}}, 32<<10)
	address := s.listen(t)
	var streams []net.Conn
	for range 2 {
		streams = append(streams, begin(t, address, "Append", "alice", `{"log":"orders"}`+"\n{"+strings.Repeat(" ", smallText)))
		<-received
	}
	require.Eventually(t, func() bool { return o.Texts.Used() > 0 }, time.Minute, time.Millisecond, "both are in the middle of a request")
	for o.Texts.Grow("alice", 1) { // and hold all that there is
	}
	close(held)
	for _, conn := range streams {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		line, err := bufio.NewReader(r.Body).ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, "result")
	}
}

func TestReadersOfOnePrincipalThatTakeNothingLeaveAnswersToOthers(t *testing.T) {
	s, o := calls(t, logs{read: func(q *strandlinev1.ReadRequest, stream grpc.ServerStreamingServer[strandlinev1.ReadResponse]) error {
		frame := &strandlinev1.ReadResponse{Batches: make([]byte, q.GetMaxRecords())}
		for range 1000 {
			if err := stream.Send(frame); err != nil || !q.GetFollow() {
				return err
			}
		}
		return nil
	}}, 2<<20)
	address := s.listen(t)
	read := func(token string, bytes int, more string) net.Conn {
		conn := begin(t, address, "Read", token, fmt.Sprintf(`{"log":"orders","maxRecords":"%d"%s}`, bytes, more))
		_, err := io.WriteString(conn, end)
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(writeTime/3)))
		return conn
	}
	const counted, large = 64 << 10, 512 << 10 // of which the one takes 256 KiB of 2 MiB, and the other is sent beside them
	takesNone := read("mallory", large, `,"follow":true`)
	_, err := takesNone.Read(make([]byte, 1))
	require.NoError(t, err)
	for range 10 {
		read("mallory", counted, `,"follow":true`)
	}
	full := func() bool { return o.SentTexts.Waiting() }
	require.Eventually(t, full, time.Minute, time.Millisecond)
	for range 3 {
		r, err := http.ReadResponse(bufio.NewReader(read("alice", counted, "")), nil)
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		require.Greater(t, n, int64(counted))
		require.True(t, full(), "mallory has as much as she gets")
	}
	next := read("alice", large, "")
	require.NoError(t, next.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = next.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "one large answer is sent at a time")
	require.NoError(t, takesNone.Close())
	require.NoError(t, next.SetReadDeadline(time.Now().Add(writeTime/3)))
	_, err = next.Read(make([]byte, 1))
	require.NoError(t, err)
}

// hold takes memory for others, until a request of another holder that takes so many bytes does not fit.
func hold(of *budget.Arriving, bytes int64) {
	for i := range 64 {
		for of.Grow(fmt.Sprint("other", i), bytes) {
		}
	}
}

// answerOn reads the answer to a call.
func answerOn(t *testing.T, conn net.Conn) (r *http.Response, text string) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(writeTime)))
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	all, err := io.ReadAll(r.Body)
	require.NoError(t, err, "the answer is whole")
	return r, string(all)
}

func TestARequestOfACallThatAnswersWithAStreamHasToComeInTime(t *testing.T) {
	s, o := calls(t, logs{}, 1<<20)
	s.http.ReadTimeout = 100 * time.Millisecond
	_, text := answerOn(t, begin(t, s.listen(t), "Read", "", `{"log":"orders"`)) // one byte short
	require.Contains(t, text, `"reason":"INVALID"`)
	require.Zero(t, o.Texts.Used())
}

func TestACallThatAnswersWithAStreamMayLastLongerThanItsRequestMay(t *testing.T) {
	s, _ := calls(t, logs{read: func(_ *strandlinev1.ReadRequest, stream grpc.ServerStreamingServer[strandlinev1.ReadResponse]) error {
		for i := range 2 {
			if err := stream.Send(&strandlinev1.ReadResponse{EndOffset: int64(i)}); err != nil {
				return err
			}
			select {
			case <-stream.Context().Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
		return stream.Context().Err()
	}}, 1<<20)
	s.http.ReadTimeout, s.http.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	conn := begin(t, s.listen(t), "Read", "", `{"log":"orders"}`)
	_, err := io.WriteString(conn, end)
	require.NoError(t, err)
	_, text := answerOn(t, conn)
	require.Equal(t, 2, strings.Count(text, "result"), text)
	require.NotContains(t, text, "error")
}

func TestAnIdleStreamOfRequestsHoldsNothingAndNeedsNothingToEnd(t *testing.T) {
	s, o := calls(t, logs{append: func(stream grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error {
		for {
			if _, err := stream.Recv(); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			if err := stream.Send(appended); err != nil {
				return err
			}
		}
	}}, 1<<20)
	conn := begin(t, s.listen(t), "Append", "alice", `{"log":"orders","records":[{"value":"`+strings.Repeat("eHh4", 20<<10)+`"}]}`+"\n")
	from := bufio.NewReader(conn)
	r, err := http.ReadResponse(from, nil)
	require.NoError(t, err)
	lines := bufio.NewReader(r.Body)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "result")
	require.Eventually(t, func() bool { return o.Texts.Used() == 0 }, 10*time.Second, time.Millisecond)
	hold(o.Texts, 16<<10)
	const small = `{"records":[]}` + "\n"
	_, err = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(small), small)
	require.NoError(t, err)
	line, err = lines.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "result", "a small request takes little, also behind a large one")
	hold(o.Texts, 1)
	_, err = io.WriteString(conn, end)
	require.NoError(t, err)
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Empty(t, string(rest))
}

func TestARequestForWhichThereIsNoMemoryInTimeIsRefusedAsBusy(t *testing.T) {
	s, o := calls(t, logs{}, 32<<10)
	hold(o.Texts, 1)
	conn := begin(t, s.listen(t), "Read", "", `{"log":"orders"`+strings.Repeat(" ", 8<<10)+"}")
	_, text := answerOn(t, conn)
	require.Contains(t, text, `"reason":"BUSY"`)
	require.Contains(t, text, `"retryable":true,"outcome":"not_done"`)
}

func TestAChunkedStreamThatEndsFirstIsAnsweredWhileItsClientStillSends(t *testing.T) {
	s, _ := calls(t, logs{append: func(stream grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		return stream.Send(appended)
	}}, 1<<20)
	conn := begin(t, s.listen(t), "Append", "", `{"log":"orders"}`+"\n{")
	from := bufio.NewReader(conn)
	_, err := from.Peek(1)
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "1\r\n \r\n")
	require.NoError(t, err)
	r, err := http.ReadResponse(from, nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, r.Body)
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "1\r\n \r\n")
	require.NoError(t, err)
	_, err = from.ReadByte()
	require.ErrorIs(t, err, io.EOF, "the connection is not reset")
}

func TestARequestBehindAStreamThatWasNotTakenToItsEndIsNotExecuted(t *testing.T) {
	var reads atomic.Int32
	s, _ := calls(t, logs{
		append: func(stream grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error {
			if _, err := stream.Recv(); err != nil {
				return err
			}
			return stream.Send(appended)
		},
		read: func(*strandlinev1.ReadRequest, grpc.ServerStreamingServer[strandlinev1.ReadResponse]) error {
			reads.Add(1)
			return nil
		},
	}, 1<<20)
	closed := make(chan struct{})
	s.http.ConnState = func(conn net.Conn, state http.ConnState) {
		if answered(conn, state); state == http.StateClosed {
			close(closed)
		}
	}
	conn, err := net.Dial("tcp", s.listen(t))
	require.NoError(t, err)
	defer conn.Close()
	const call = "POST /strandline.v1.LogService/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	const one, two = `{"log":"orders"}`, `{"log":"orders"} {]`
	_, err = io.WriteString(conn, fmt.Sprintf(call, "Append", len(two), two)+fmt.Sprintf(call, "Read", len(one), one))
	require.NoError(t, err)
	<-closed
	require.Zero(t, reads.Load())
}
