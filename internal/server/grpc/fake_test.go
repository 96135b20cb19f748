package grpcserver

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport"
	"strandline.dev/internal/transport/lean"
	"strandline.dev/internal/transport/wire"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// fakeNode has one log, "orders". Appends go to append, reads come from chunks
// that a test sends; every other verb of Node is what a test puts into the
// embedded interface.
type fakeNode struct {
	Node
	append func(a *sequence.Append, done func(sequence.Answer))
	busy   atomic.Bool // May refuses all

	reads  chan reading.Request
	chunks chan reading.Chunk // closed: io.EOF
	failed chan error         // what Next returns
	info   verbs.Info
}

func newFakeNode() *fakeNode {
	return &fakeNode{
		append: accept(),
		reads:  make(chan reading.Request, 1),
		chunks: make(chan reading.Chunk),
		failed: make(chan error),
	}
}

// accept appends to an endless log, at once.
func accept() func(a *sequence.Append, done func(sequence.Answer)) {
	var mu sync.Mutex
	var end record.Offset
	return func(a *sequence.Append, done func(sequence.Answer)) {
		mu.Lock()
		first := end
		end += record.Offset(a.Records)
		mu.Unlock()
		done(sequence.Answer{First: sequence.Run{First: first, Count: uint32(a.Records)}})
	}
}

func (f *fakeNode) May(_ verbs.Caller, _ *guard.Verb, log string) error {
	if f.busy.Load() {
		return record.Refuse(record.Busy, "the rules are not known yet")
	}
	if log == "secret" {
		return record.Refuse(record.Denied, "the caller may not append to it")
	}
	return nil
}

func (f *fakeNode) PaceAppend(context.Context, verbs.Caller, string, int, func() (done func())) error {
	return nil
}

func (f *fakeNode) Append(_ verbs.Caller, log string, a *sequence.Append, _, done func(sequence.Answer)) {
	if log != "orders" {
		done(sequence.Answer{Refusal: record.Refuse(record.LogNotFound, "there is no log %q", log)})
		return
	}
	f.append(a, done)
}

func (f *fakeNode) Read(_ context.Context, _ verbs.Caller, log string, q reading.Request) (guard.Reader, error) {
	if log != "orders" {
		return nil, record.Refuse(record.LogNotFound, "there is no log %q", log)
	}
	f.reads <- q
	return fakeReader{f, q}, nil
}

func (f *fakeNode) KnownInfo(_ verbs.Caller, log string) (verbs.Info, error) {
	if log != "orders" {
		return verbs.Info{}, record.Refuse(record.LogNotFound, "there is no log %q", log)
	}
	return f.info, nil
}

type fakeReader struct {
	*fakeNode
	request reading.Request
}

func (r fakeReader) First() record.Offset { return r.request.From.Offset }
func (r fakeReader) Log() uint64          { return 9 }
func (r fakeReader) Drop(func())          {}
func (r fakeReader) Close()               {}

func (r fakeReader) Next(ctx context.Context) (reading.Chunk, error) {
	select {
	case c, ok := <-r.chunks:
		if !ok {
			return c, io.EOF
		}
		if c.Release == nil {
			c.Release = func() {}
		}
		return c, nil
	case err := <-r.failed:
		return reading.Chunk{}, err
	case <-ctx.Done():
		return reading.Chunk{}, ctx.Err()
	}
}

// testServer serves a node on connections in memory.
type testServer struct {
	server *rpc.Server
	conn   grpc.ClientConnInterface
}

// leanConn opens streams on connections of their own.
type leanConn struct {
	*grpc.ClientConn
	*lean.Client
}

func (c leanConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.Client.NewStream(ctx, method)
}

// closedAsOthers gives the error that others do when it is closed.
type closedAsOthers struct{ net.Listener }

func (l closedAsOthers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		err = net.ErrClosed
	}
	return conn, err
}

func serve(t *testing.T, n Node, o rpc.Options) *testServer {
	t.Helper()
	d := &testServer{server: rpc.New(o)}
	Register(d.server, n)
	l := bufconn.Listen(1 << 20)
	sorted, others := transport.Split(closedAsOthers{l}, lean.Magic)
	served := make(chan error, 2)
	go func() { served <- d.server.Serve(others) }()
	go func() { served <- d.server.ServeStreams(sorted[0]) }()
	conn, err := grpc.NewClient("passthrough:server",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec), grpc.MaxCallRecvMsgSize(rpc.MaxRequestBytes)))
	require.NoError(t, err)
	d.conn = conn
	if strings.HasPrefix(t.Name(), leanTest) {
		d.conn = leanConn{conn, &lean.Client{Dial: l.DialContext, Codec: wire.Codec, MaxMessage: rpc.MaxRequestBytes}}
	}
	t.Cleanup(func() {
		_ = conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		d.server.Stop(ctx)
		for range 2 {
			if err := <-served; !errors.Is(err, grpc.ErrServerStopped) && !errors.Is(err, net.ErrClosed) { // before it came to look
				require.NoError(t, err)
			}
		}
		require.Zero(t, d.server.Appends.Used(), "bytes that were never given back to the budget")
	})
	return d
}

// appendClient is an append stream that sends and receives messages of wire.
type appendClient struct {
	*testing.T
	grpc.ClientStream
	cancel context.CancelFunc
}

func (d *testServer) append(t *testing.T) appendClient {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := strandlinev1.NewLogServiceClient(d.conn).Append(ctx)
	require.NoError(t, err)
	return appendClient{t, stream, cancel}
}

func (c appendClient) send(q *wire.AppendRequest) {
	c.Helper()
	require.NoError(c, c.SendMsg(q))
}

func (c appendClient) receive() *wire.AppendResponse {
	c.Helper()
	r := new(wire.AppendResponse)
	require.NoError(c, c.RecvMsg(r))
	return r
}

func (c appendClient) end() error { return c.RecvMsg(new(wire.AppendResponse)) }

// batchOf encodes values into one batch at an offset.
func batchOf(t testing.TB, base record.Offset, values ...string) record.Batch {
	t.Helper()
	var b record.Builder
	for i, v := range values {
		require.NoError(t, b.Add(record.Record{Timestamp: 1_700_000_000_000 + int64(i), Value: []byte(v)}))
	}
	batch, err := b.Finish(record.None)
	require.NoError(t, err)
	batch.SetBaseOffset(base)
	return batch
}

func join(batches ...record.Batch) (run []byte) {
	for _, b := range batches {
		run = append(run, b...)
	}
	return run
}
