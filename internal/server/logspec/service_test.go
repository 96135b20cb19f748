package logspecserver

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"strandline.dev/api/logspec"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// fakeNode is a log in memory. Nothing is there before CreateLog.
type fakeNode struct {
	mu         sync.Mutex
	created    int
	batches    []record.Batch
	start, end record.Offset
	changed    chan struct{} // closed and replaced at every change
	refusal    *record.Refusal
	held       chan func()   // if set, answers wait here to be given
	dropped    chan struct{} // of capacity 1: a reader has given up what it read ahead
	chunks     atomic.Int64  // that readers hold
	most       atomic.Int64  // of them at once
}

func newFakeNode() *fakeNode {
	return &fakeNode{changed: make(chan struct{}), dropped: make(chan struct{}, 1)}
}

func (f *fakeNode) May(verbs.Caller, *guard.Verb, string) error { return nil }

func (f *fakeNode) PaceAppend(context.Context, verbs.Caller, string, int, func() (done func())) error {
	return nil
}

func (f *fakeNode) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeNode) refuse(r *record.Refusal) { f.change(func() { f.refusal = r }) }

func (f *fakeNode) refused() *record.Refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refusal
}

func (f *fakeNode) Append(_ verbs.Caller, _ string, a *sequence.Append, _, done func(sequence.Answer)) {
	var answer sequence.Answer
	f.change(func() {
		if f.refusal != nil {
			answer.Refusal = f.refusal
			return
		}
		answer.First = sequence.Run{First: f.end, Count: uint32(a.Records)}
		for _, b := range a.Batches {
			if err := b.Check(); err != nil {
				panic(err)
			}
			b = bytes.Clone(b)
			b.SetBaseOffset(f.end)
			f.batches = append(f.batches, b)
			f.end = b.End()
		}
	})
	if f.held != nil {
		f.held <- func() { done(answer) }
		return
	}
	done(answer)
}

func (f *fakeNode) Trim(_ context.Context, _ verbs.Caller, _ string, before record.Offset, fastForward bool) (start, end record.Offset, err error) {
	if before < 0 || !fastForward {
		return 0, 0, record.Refuse(record.Invalid, "offset %d", before)
	}
	if r := f.refused(); r != nil {
		return 0, 0, r
	}
	f.change(func() {
		f.start = max(f.start, before)
		f.end = max(f.end, before)
		start, end = f.start, f.end
	})
	return start, end, nil
}

func (f *fakeNode) KnownInfo(_ verbs.Caller, log string) (verbs.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.created == 0 {
		return verbs.Info{}, record.Refuse(record.LogNotFound, "there is no log %q", log)
	}
	return verbs.Info{Start: f.start, End: f.end, BytesUsed: 10, BytesFree: 90, Full: f.refusal != nil && f.refusal.Reason == record.Full}, nil
}

func (f *fakeNode) Info(_ context.Context, c verbs.Caller, log string) (verbs.Info, error) {
	if r := f.refused(); r != nil {
		return verbs.Info{}, r
	}
	return f.KnownInfo(c, log)
}

func (f *fakeNode) WatchInfo(ctx context.Context, c verbs.Caller, log string, since verbs.Info) (verbs.Info, error) {
	for {
		f.mu.Lock()
		changed, refusal := f.changed, f.refusal
		f.mu.Unlock()
		if refusal != nil {
			return verbs.Info{}, refusal
		}
		if i, err := f.KnownInfo(c, log); err != nil || i.Start != since.Start || i.End != since.End {
			return i, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return verbs.Info{}, ctx.Err()
		}
	}
}

func (f *fakeNode) CreateLog(_ context.Context, c verbs.Caller, name string, _ settings.Config) (verbs.Info, error) {
	f.change(func() { f.created++ })
	return verbs.Info{Name: name}, nil
}

func (f *fakeNode) Read(_ context.Context, _ verbs.Caller, _ string, q reading.Request) (guard.Reader, error) {
	if q.From.Kind != reading.FromOffset || !q.Follow || q.Until != reading.NoOffset {
		panic("not what this server asks for")
	}
	f.mu.Lock()
	end := f.end
	f.mu.Unlock()
	if q.From.Offset > end {
		return nil, record.Refuse(record.OffsetBeyondEnd, "beyond")
	}
	if !q.Metered {
		panic("a read takes memory that nobody counts")
	}
	return &fakeReader{f, q.From.Offset}, nil
}

type fakeReader struct {
	*fakeNode
	next record.Offset
}

func (r *fakeReader) Close() {}

func (r *fakeReader) First() record.Offset { return 0 }

func (r *fakeReader) Log() uint64 { return 9 }
func (r *fakeReader) Drop(func()) {
	select {
	case r.dropped <- struct{}{}:
	default:
	}
}

func (r *fakeReader) Next(ctx context.Context) (reading.Chunk, error) {
	for {
		r.mu.Lock()
		changed, refusal, batches, start := r.changed, r.refusal, r.batches, r.start
		r.mu.Unlock()
		if refusal != nil {
			return reading.Chunk{}, refusal
		}
		if r.next < start {
			return reading.Chunk{}, record.Refuse(record.OffsetTrimmed, "trimmed")
		}
		for _, b := range batches {
			if b.End() > r.next {
				c := reading.Chunk{First: r.next, Count: int(b.End() - r.next), Parts: [][]byte{b}, Release: func() { r.chunks.Add(-1) }}
				r.most.Store(max(r.most.Load(), r.chunks.Add(1)))
				r.next = b.End()
				return c, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return reading.Chunk{}, ctx.Err()
		}
	}
}

func serve(t *testing.T, n Node) (*rpc.Server, logspec.LogClient) {
	t.Helper()
	s := rpc.New(rpc.Options{})
	logspec.RegisterLogServer(s, &service{server: s, node: n, log: DefaultLog, signOfLife: 10 * time.Millisecond})
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:server",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.Stop(ctx)
		require.NoError(t, <-served)
		require.Zero(t, s.Appends.Used(), "bytes that were never given back to the budget")
	})
	return s, logspec.NewLogClient(conn)
}

type appendClient struct {
	*testing.T
	stream grpc.BidiStreamingClient[logspec.AppendRequest, logspec.AppendReply]
	next   uint64
}

func open(t *testing.T, c logspec.LogClient) *appendClient {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := c.Append(ctx)
	require.NoError(t, err)
	return &appendClient{T: t, stream: stream, next: 1}
}

func (c *appendClient) send(proposals ...string) {
	c.Helper()
	q := &logspec.AppendRequest{Sequence: c.next}
	c.next++
	for _, p := range proposals {
		q.Proposals = append(q.Proposals, []byte(p))
	}
	require.NoError(c, c.stream.Send(q))
}

func (c *appendClient) receive() *logspec.AppendReply {
	c.Helper()
	r, err := c.stream.Recv()
	require.NoError(c, err)
	return r
}

func (c *appendClient) requireOK(sequence uint64, indexes ...uint64) {
	c.Helper()
	ok := c.receive().GetOk()
	require.NotNil(c, ok)
	require.Equal(c, sequence, ok.Sequence)
	require.Equal(c, indexes, ok.Indexes)
}

func (c *appendClient) end() error {
	_, err := c.stream.Recv()
	return err
}

func TestANewLogIsCreatedOnFirstUseAndStartsAtIndexOne(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	_, c := serve(t, n)
	info, err := c.Info(context.Background(), &logspec.InfoRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 1, info.GetOk().FirstIndex)
	require.EqualValues(t, 0, info.GetOk().LastIndex)
	require.EqualValues(t, 10, info.GetOk().BytesUsed)
	require.EqualValues(t, 100, info.GetOk().BytesTotal)
	_, err = c.Info(context.Background(), &logspec.InfoRequest{AllowStale: true})
	require.NoError(t, err)
	require.Equal(t, 1, n.created)
}

func TestProposalsGetConsecutiveIndexesAndAProbeNone(t *testing.T) {
	t.Parallel()
	_, client := serve(t, newFakeNode())
	c := open(t, client)
	c.send("a", "b", "")
	c.send()
	c.send("c")
	c.requireOK(1, 1, 2, 3)
	c.requireOK(2)
	c.requireOK(3, 4)
	require.NoError(t, c.stream.CloseSend())
	require.ErrorIs(t, c.end(), io.EOF)
}

func TestRepliesComeInTheOrderOfRequestsEvenForAProbe(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	n.held = make(chan func(), 2)
	_, client := serve(t, n)
	c := open(t, client)
	c.send("a")
	c.send("b")
	c.send()
	first, second := <-n.held, <-n.held
	second()
	first()
	c.requireOK(1, 1)
	c.requireOK(2, 2)
	c.requireOK(3)
}

func TestARequestOfEightMebibytesIsOneAppend(t *testing.T) {
	t.Parallel()
	_, client := serve(t, newFakeNode())
	c := open(t, client)
	proposals := make([]string, 8<<10)
	want := make([]uint64, len(proposals))
	for i := range proposals {
		proposals[i] = strings.Repeat("x", 1<<10)
		want[i] = uint64(i + 1)
	}
	c.send(proposals...)
	c.requireOK(1, want...)
	c.send(strings.Repeat("y", record.MaxRecordBytes))
	c.requireOK(2, uint64(len(proposals)+1))
}

func TestAFullLogIsReportedBehindEarlierRepliesAndEndsTheStream(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	n.held = make(chan func(), 2)
	_, client := serve(t, n)
	c := open(t, client)
	c.send("a")
	first := <-n.held
	n.refuse(record.Refuse(record.Full, "no room"))
	c.send("b")
	(<-n.held)()
	first()
	c.requireOK(1, 1)
	require.True(t, c.receive().GetFull())
	require.ErrorIs(t, c.end(), io.EOF)

	n.held = nil
	c = open(t, client)
	c.send()
	require.True(t, c.receive().GetFull(), "a probe finds out as well")
	n.refuse(nil)
	c = open(t, client)
	c.send()
	c.requireOK(1)
}

func TestAnotherLeaderIsARedirect(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	_, client := serve(t, n)
	ctx := context.Background()
	_, err := client.Info(ctx, &logspec.InfoRequest{})
	require.NoError(t, err)
	elsewhere := record.Refuse(record.NotLeader, "not here")
	elsewhere.Leader = "host:1"
	n.refuse(elsewhere)

	c := open(t, client)
	c.send("a")
	require.Equal(t, "host:1", c.receive().GetRedirect().GetHost())
	require.ErrorIs(t, c.end(), io.EOF)

	info, err := client.Info(ctx, &logspec.InfoRequest{})
	require.NoError(t, err)
	require.Equal(t, "host:1", info.GetRedirect().GetHost())

	discard, err := client.Discard(ctx, &logspec.DiscardRequest{FirstIndex: 2})
	require.NoError(t, err)
	require.Equal(t, "host:1", discard.GetRedirect().GetHost())

	read, err := client.Read(ctx, &logspec.ReadRequest{NextIndex: 1})
	require.NoError(t, err)
	reply, err := read.Recv()
	require.NoError(t, err)
	require.Equal(t, "host:1", reply.GetRedirect().GetHost())
	_, err = read.Recv()
	require.ErrorIs(t, err, io.EOF)

	infos, err := client.InfoStream(ctx, &logspec.InfoRequest{})
	require.NoError(t, err)
	first, err := infos.Recv()
	require.NoError(t, err)
	require.Equal(t, "host:1", first.GetRedirect().GetHost())
}

func TestAnOverLimitProposalEndsTheStreamBehindEarlierReplies(t *testing.T) {
	t.Parallel()
	_, client := serve(t, newFakeNode())
	c := open(t, client)
	c.send("a")
	c.send(strings.Repeat("x", record.MaxRecordBytes+1))
	c.requireOK(1, 1)
	require.Equal(t, codes.ResourceExhausted, status.Code(c.end()))

	c = open(t, client)
	c.next = 1
	_ = c.stream.Send(&logspec.AppendRequest{Sequence: 1, Proposals: [][]byte{make([]byte, rpc.MaxRequestBytes)}})
	require.Equal(t, codes.ResourceExhausted, status.Code(c.end()))
}

func TestARequestThatDecodesIntoTooMuchEndsTheStream(t *testing.T) {
	t.Parallel()
	_, client := serve(t, newFakeNode())
	c := open(t, client)
	require.NoError(t, c.stream.Send(&logspec.AppendRequest{Sequence: 1, Proposals: make([][]byte, maxProposals+1)}))
	// Its clients wait and try again for RESOURCE_EXHAUSTED; this will never fit.
	require.Equal(t, codes.InvalidArgument, status.Code(c.end()))
}

func TestASequenceOutOfOrderEndsTheStream(t *testing.T) {
	t.Parallel()
	_, client := serve(t, newFakeNode())
	c := open(t, client)
	c.next = 2
	c.send("a")
	require.Equal(t, codes.InvalidArgument, status.Code(c.end()))
}

func TestOtherRefusalsAreAStatus(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	_, client := serve(t, n)
	n.refuse(record.Refuse(record.OutcomeUnknown, "lost"))
	c := open(t, client)
	c.send("a")
	require.Equal(t, codes.Unknown, status.Code(c.end()))
}

func TestAReadGetsConsecutiveIndexesAndFollows(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	_, client := serve(t, n)
	c := open(t, client)
	c.send("a", "b", "c")
	c.requireOK(1, 1, 2, 3)
	read, err := client.Read(context.Background(), &logspec.ReadRequest{NextIndex: 2})
	require.NoError(t, err)
	next := func() []*logspec.Entry {
		for {
			r, err := read.Recv()
			require.NoError(t, err)
			require.NotNil(t, r.GetOk())
			if entries := r.GetOk().Entries; len(entries) > 0 {
				return entries
			}
		}
	}
	entries := next()
	require.Len(t, entries, 2)
	require.EqualValues(t, 2, entries[0].Index)
	require.Equal(t, "b", string(entries[0].Data))
	require.EqualValues(t, 3, entries[1].Index)
	require.False(t, entries[1].Skip)

	c.send("d")
	c.requireOK(2, 4)
	entries = next()
	require.Len(t, entries, 1)
	require.EqualValues(t, 4, entries[0].Index)
	require.Equal(t, "d", string(entries[0].Data))

	// The log is trimmed under the reader, who then is below the start.
	_, err = client.Discard(context.Background(), &logspec.DiscardRequest{FirstIndex: 100})
	require.NoError(t, err)
	r, err := read.Recv()
	for err == nil && r.GetOk() != nil {
		r, err = read.Recv()
	}
	require.NoError(t, err)
	require.True(t, r.GetTruncated())
	_, err = read.Recv()
	require.ErrorIs(t, err, io.EOF)
}

func TestAQuietTailGetsEmptyReplies(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	_, client := serve(t, n)
	read, err := client.Read(context.Background(), &logspec.ReadRequest{NextIndex: 1})
	require.NoError(t, err)
	for range 2 {
		r, err := read.Recv()
		require.NoError(t, err)
		require.NotNil(t, r.GetOk())
		require.Empty(t, r.GetOk().Entries)
	}
}

func TestALargeBatchIsSentInRepliesOfLimitedSize(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	_, client := serve(t, n)
	c := open(t, client)
	const count = 300
	var proposals []string
	for range count {
		proposals = append(proposals, strings.Repeat("x", 100<<10))
	}
	c.send(proposals...)
	c.receive()
	read, err := client.Read(context.Background(), &logspec.ReadRequest{NextIndex: 1})
	require.NoError(t, err)
	for next := uint64(1); next <= count; {
		r, err := read.Recv() // a client that takes 4 MiB
		require.NoError(t, err)
		for _, e := range r.GetOk().Entries {
			require.Equal(t, next, e.Index)
			next++
		}
	}
}

func TestAReaderThatStallsHoldsOneChunkAndNothingAhead(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	_, client := serve(t, n)
	c := open(t, client)
	for range 4 {
		c.send(strings.Repeat("x", 900<<10))
		c.receive()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := client.Read(ctx, &logspec.ReadRequest{NextIndex: 1}) // and nothing is received
	require.NoError(t, err)
	<-n.dropped
	require.Eventually(t, func() bool { return n.chunks.Load() == 1 }, time.Minute, time.Millisecond) // it may be between two
	cancel()
	require.Eventually(t, func() bool { return n.chunks.Load() == 0 }, time.Minute, time.Millisecond)
	require.EqualValues(t, 1, n.most.Load())
}

func TestDiscardBeyondTheTailMovesTheLogForward(t *testing.T) {
	t.Parallel()
	_, client := serve(t, newFakeNode())
	ctx := context.Background()
	for _, nothing := range []uint64{0, 1} {
		r, err := client.Discard(ctx, &logspec.DiscardRequest{FirstIndex: nothing})
		require.NoError(t, err)
		require.NotNil(t, r.GetOk())
	}
	r, err := client.Discard(ctx, &logspec.DiscardRequest{FirstIndex: 1000})
	require.NoError(t, err)
	require.NotNil(t, r.GetOk())
	info, err := client.Info(ctx, &logspec.InfoRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 1000, info.GetOk().FirstIndex)
	require.EqualValues(t, 999, info.GetOk().LastIndex)
	c := open(t, client)
	c.send("a")
	c.requireOK(1, 1000)

	_, err = client.Discard(ctx, &logspec.DiscardRequest{FirstIndex: 1 << 63})
	require.NoError(t, err) // the largest index there is
	_, err = client.Discard(ctx, &logspec.DiscardRequest{FirstIndex: 1<<63 + 1})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}

func TestAReadFromNowhereIsRefused(t *testing.T) {
	t.Parallel()
	_, client := serve(t, newFakeNode())
	for index, want := range map[uint64]codes.Code{
		0: codes.InvalidArgument, 1<<63 + 1: codes.InvalidArgument,
	} {
		read, err := client.Read(context.Background(), &logspec.ReadRequest{NextIndex: index})
		require.NoError(t, err)
		_, err = read.Recv()
		require.Equal(t, want, status.Code(err), index)
	}
}

// A client that was refused would come back at once, again and again.
func TestAReadBeyondTheTailWaitsUntilTheLogReachesIt(t *testing.T) {
	t.Parallel()
	_, client := serve(t, newFakeNode())
	read, err := client.Read(t.Context(), &logspec.ReadRequest{NextIndex: 4})
	require.NoError(t, err)
	reply, err := read.Recv()
	require.NoError(t, err)
	require.NotNil(t, reply.GetOk())
	require.Empty(t, reply.GetOk().Entries, "a sign of life")
	c := open(t, client)
	c.send("a", "b")
	c.requireOK(1, 1, 2)
	c.send("c", "d")
	c.requireOK(2, 3, 4)
	for {
		reply, err = read.Recv()
		require.NoError(t, err)
		if entries := reply.GetOk().GetEntries(); len(entries) > 0 {
			require.EqualValues(t, 4, entries[0].Index)
			require.Equal(t, "d", string(entries[0].Data))
			return
		}
	}
}

// The end of a stream with OK would mean that every request has been answered.
func TestAStoppingServerNeverEndsAStreamAsIfAllWereDone(t *testing.T) {
	t.Parallel()
	for range 30 {
		n := newFakeNode()
		s, client := serve(t, n)
		c := open(t, client)
		c.send("a")
		c.requireOK(1, 1)
		sending, sent := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(sent)
			close(sending)
			for i := uint64(2); c.stream.Send(&logspec.AppendRequest{Sequence: i, Proposals: [][]byte{{1}}}) == nil; i++ {
			}
		}()
		<-sending
		go s.Stop(context.Background())
		var err error
		for err == nil {
			err = c.end()
		}
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		<-sent
	}
}

func TestInfoStreamSendsTheStateAtOnceAndThenChanges(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	_, client := serve(t, n)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	infos, err := client.InfoStream(ctx, &logspec.InfoRequest{})
	require.NoError(t, err)
	r, err := infos.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 0, r.GetOk().LastIndex)
	c := open(t, client)
	c.send("a")
	c.requireOK(1, 1)
	r, err = infos.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 1, r.GetOk().LastIndex)
}

func TestAStoppingServerRepliesToWhatIsInFlight(t *testing.T) {
	t.Parallel()
	n := newFakeNode()
	n.held = make(chan func(), 1)
	s, client := serve(t, n)
	c := open(t, client)
	c.send("a")
	answer := <-n.held
	read, err := client.Read(context.Background(), &logspec.ReadRequest{NextIndex: 2})
	require.NoError(t, err)
	stopped := make(chan struct{})
	go func() { s.Stop(context.Background()); close(stopped) }()
	for err == nil {
		_, err = read.Recv()
	}
	require.Equal(t, codes.Unavailable, status.Code(err))
	answer()
	c.requireOK(1, 1)
	require.Equal(t, codes.Unavailable, status.Code(c.end()))
	<-stopped
}
