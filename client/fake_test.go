package client_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/wire"
)

// fate is what happens to one request of an append stream.
type fate struct {
	refuse       record.Reason // answer with this, before the log has seen it
	leader       string        // with NotLeader
	loseRequest  bool          // end the stream, the request is not in the log
	loseAnswer   bool          // end the stream, the request is in the log
	neverAnswer  bool          // hold the stream until the client gives it up
	appendedOnly bool          // with refuse: the log takes it all the same
}

var replacedFate = fate{refuse: record.LogReplaced}

// neverAnswers holds every request.
func neverAnswers(int, *wire.AppendRequest) fate { return fate{neverAnswer: true} }

// fakeServer is one log behind a real gRPC server on loopback: it numbers
// records and knows duplicates, and does what a test wants it to do to streams.
type fakeServer struct {
	strandlinev1.UnimplementedLogServiceServer
	strandlinev1.UnimplementedSessionServiceServer
	strandlinev1.UnimplementedCatalogServiceServer
	strandlinev1.UnimplementedClusterServiceServer

	address  string
	server   *grpc.Server
	served   sync.WaitGroup
	register func(*grpc.Server) // the log service

	// Set before the first request, or under mu. n counts the requests that
	// came, over all streams.
	decide  func(n int, m *wire.AppendRequest) fate
	answer  func()                                                             // called before each answer leaves
	list    func(*strandlinev1.ListLogsRequest) *strandlinev1.ListLogsResponse // may be nil
	stages  *strandlinev1.AppendStages
	reading func(n int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error
	watched func(grpc.ServerStreamingServer[strandlinev1.WatchInfoResponse]) error
	keep    func(context.Context) error // without mu
	open    func(context.Context) error // before a session is opened, without mu
	resolve func(*strandlinev1.ResolveRequest) (*strandlinev1.ResolveResponse, error)
	silent  func(context.Context) // called before Resolve answers, without mu
	leader  string
	// describe changes what GetInfo answers, or refuses.
	describe func(*strandlinev1.GetInfoRequest, *strandlinev1.LogInfo) error

	tries         []try             // of changes
	logs          map[string]string // by name: the request that created it
	id            uint64            // of the log; 0 in tests that do not care
	idAfterDelete uint64

	refuseKeep record.Reason                      // what KeepHold answers
	setHold    func(*strandlinev1.SetHoldRequest) // called by SetHold; may be nil
	keptHold   func()                             // called by KeepHold where it does not refuse; may be nil
	// What the calls of writer leases answer, without mu.
	leaseWriter   func() (*strandlinev1.LeaseWriterResponse, error)
	keepWriter    func() error
	releaseWriter func() error
	watchWriter   func(grpc.ServerStreamingServer[strandlinev1.WatchWriterResponse]) error
	moves         chan struct{} // SetHold answers after the first when it is closed
	sets          atomic.Int64

	mu          sync.Mutex
	requests    int
	reads       int
	digests     int
	streams     int
	metadata    metadata.MD // of the newest append stream
	outstanding int         // requests read and not answered
	maxOut      int
	bytesOut    int
	maxBytesOut int
	kept        int
	opened      uint64
	closed      []uint64
	changes     [][]string // of the cluster
	existed     bool       // what a change of it makes
	secrets     int        // that were made
	sessions    map[uint64]*fakeSession
	end         int64
	batches     []record.Batch
	seen        []seen
	faults      []string // what a client must never do
}

type fakeSession struct {
	expired bool
	epoch   uint32
	next    uint64
	answers map[place]int64 // offset by epoch and first sequence
	lowest  uint64
}

type place struct {
	epoch uint32
	first uint64
}

type seen struct {
	session uint64
	place
	records int
}

func newFakeServer(t testing.TB) *fakeServer {
	t.Helper()
	f := &fakeServer{
		sessions: make(map[uint64]*fakeSession), logs: make(map[string]string),
		decide: func(int, *wire.AppendRequest) fate { return fate{} },
		answer: func() {},
	}
	f.register = func(s *grpc.Server) { strandlinev1.RegisterLogServiceServer(s, f) }
	// The port is of this process alone, also while the server is down.
	f.start(t, fmt.Sprintf("127.36.%d.1:0", os.Getpid()%250))
	t.Cleanup(f.stop)
	return f
}

func (f *fakeServer) start(t testing.TB, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	f.address = listener.Addr().String()
	f.server = grpc.NewServer(
		grpc.ForceServerCodecV2(wire.Codec), grpc.MaxRecvMsgSize(64<<20),
		grpc.InitialWindowSize(4<<20), grpc.InitialConnWindowSize(8<<20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	f.register(f.server)
	strandlinev1.RegisterSessionServiceServer(f.server, f)
	strandlinev1.RegisterCatalogServiceServer(f.server, f)
	strandlinev1.RegisterClusterServiceServer(f.server, f)
	server := f.server
	f.served.Go(func() { server.Serve(listener) })
}

// stop ends the server. One that had not begun to serve closes its listener later.
func (f *fakeServer) stop() {
	f.server.Stop()
	f.served.Wait()
}

func (f *fakeServer) client(t testing.TB, more ...string) *client.Client {
	t.Helper()
	c, err := client.Dial(append([]string{f.address}, more...))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func (f *fakeServer) producer(t testing.TB, opts ...client.ProducerOption) *client.Producer {
	t.Helper()
	p, err := f.client(t).Producer(t.Context(), "orders", opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p.Close(ctx)
	})
	return p
}

// Append reads requests as they come and answers them in order from another
// goroutine, so that what a client has in flight is seen here.
func (f *fakeServer) Append(stream grpc.BidiStreamingServer[strandlinev1.AppendRequest, strandlinev1.AppendResponse]) error {
	type reply struct {
		answer wire.AppendResponse
		bytes  int
	}
	f.mu.Lock()
	f.streams++
	f.metadata, _ = metadata.FromIncomingContext(stream.Context())
	f.mu.Unlock()
	replies := make(chan reply, 10_000)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for r := range replies {
			f.answer()
			f.mu.Lock()
			f.outstanding--
			f.bytesOut -= r.bytes
			f.mu.Unlock()
			if stream.SendMsg(&r.answer) != nil {
				return
			}
		}
	}()
	defer func() { <-sent }()
	defer close(replies)
	for first := true; ; first = false {
		m := new(wire.AppendRequest)
		if err := stream.RecvMsg(m); err != nil {
			return nil
		}
		f.mu.Lock()
		if first && m.Log != "orders" {
			f.faults = append(f.faults, "a stream without the log's name")
		}
		n := f.requests
		f.requests++
		f.outstanding++
		f.bytesOut += len(m.Batches)
		f.maxOut = max(f.maxOut, f.outstanding)
		f.maxBytesOut = max(f.maxBytesOut, f.bytesOut)
		fate := f.decide(n, m)
		if m.LogID != f.id {
			fate = replacedFate
		}
		var answer wire.AppendResponse
		switch {
		case fate.loseRequest, fate.neverAnswer, fate.refuse != 0 && !fate.appendedOnly:
			answer.Refused = refusal(fate.refuse, fate.leader)
		default:
			answer = f.append(m)
			answer.Stages = f.stages
			if fate.refuse != 0 {
				answer.Refused = refusal(fate.refuse, fate.leader)
			}
		}
		if fate.loseRequest || fate.loseAnswer || fate.neverAnswer {
			f.outstanding--
			f.bytesOut -= len(m.Batches)
		}
		f.mu.Unlock()
		switch {
		case fate.neverAnswer:
			<-stream.Context().Done()
			return nil
		case fate.loseRequest || fate.loseAnswer:
			return status.Error(codes.Unavailable, "the connection broke")
		}
		replies <- reply{answer, len(m.Batches)}
	}
}

// append is what a log does with a request; mu is held.
func (f *fakeServer) append(m *wire.AppendRequest) wire.AppendResponse {
	var batches []record.Batch
	count := 0
	for rest := m.Batches; len(rest) > 0; {
		b, after, err := record.Split(rest)
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			f.faults = append(f.faults, err.Error())
			return wire.AppendResponse{Refused: refusal(record.Invalid, "")}
		}
		batches, rest = append(batches, b), after
		count += b.Count()
	}
	if m.SessionID != 0 {
		s := f.sessions[m.SessionID]
		if s == nil {
			return wire.AppendResponse{Refused: refusal(record.SessionNotFound, "")}
		}
		at := place{m.Epoch, m.FirstSequence}
		if offset, ok := s.answers[at]; ok {
			return wire.AppendResponse{FirstOffset: offset, EndOffset: offset + int64(count), Duplicate: true}
		}
		switch {
		case s.expired:
			return wire.AppendResponse{Refused: refusal(record.SessionExpired, "")}
		case m.Epoch < s.epoch:
			return wire.AppendResponse{Refused: refusal(record.StaleEpoch, "")}
		case m.Epoch > s.epoch && m.FirstSequence == 0:
			s.epoch, s.next, s.lowest = m.Epoch, 0, 0
		case m.Epoch > s.epoch || m.FirstSequence != s.next:
			return wire.AppendResponse{Refused: refusal(record.SequenceGap, "")}
		}
		if m.LowWater > m.FirstSequence || m.LowWater < s.lowest {
			f.faults = append(f.faults, "a low-water mark that is too high or falls")
		}
		s.lowest = m.LowWater
		s.next += uint64(count)
		s.answers[at] = f.end
	}
	if m.HasExpectedEnd && m.ExpectedEnd != f.end {
		r := refusal(record.EndMismatch, "")
		r.Metadata["end_offset"] = strconv.FormatInt(f.end, 10)
		return wire.AppendResponse{Refused: r}
	}
	f.seen = append(f.seen, seen{m.SessionID, place{m.Epoch, m.FirstSequence}, count})
	first := f.end
	for _, b := range batches {
		b.SetBaseOffset(record.Offset(f.end))
		f.end += int64(b.Count())
		f.batches = append(f.batches, b)
	}
	return wire.AppendResponse{FirstOffset: first, EndOffset: f.end}
}

// values are those of the records in the log, in order.
func (f *fakeServer) values(t testing.TB) []string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Empty(t, f.faults)
	var values []string
	for _, b := range f.batches {
		for r, err := range b.Records {
			require.NoError(t, err)
			values = append(values, string(r.Value))
		}
	}
	return values
}

func (f *fakeServer) count(what *int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *what
}

func (f *fakeServer) expire(id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[id].expired = true
}

func (f *fakeServer) OpenSession(ctx context.Context, q *strandlinev1.OpenSessionRequest) (*strandlinev1.OpenSessionResponse, error) {
	if f.open != nil {
		if err := f.open(ctx); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leader != "" {
		return nil, refuse(record.NotLeader, "leader", f.leader)
	}
	f.opened++
	f.sessions[f.opened] = &fakeSession{answers: make(map[place]int64)}
	return &strandlinev1.OpenSessionResponse{SessionId: f.opened, Lease: q.Lease, LogId: f.id}, nil
}

func (f *fakeServer) KeepSession(ctx context.Context, q *strandlinev1.KeepSessionRequest) (*strandlinev1.KeepSessionResponse, error) {
	f.mu.Lock()
	f.kept++
	keep := f.keep
	f.mu.Unlock()
	if err := f.identify(q.LogId); err != nil {
		return nil, err
	}
	if keep != nil {
		return &strandlinev1.KeepSessionResponse{}, keep(ctx)
	}
	return &strandlinev1.KeepSessionResponse{}, nil
}

func (f *fakeServer) CloseSession(_ context.Context, q *strandlinev1.CloseSessionRequest) (*strandlinev1.CloseSessionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.identify(q.LogId); err != nil {
		return nil, err
	}
	f.closed = append(f.closed, q.SessionId)
	return &strandlinev1.CloseSessionResponse{}, nil
}

func (f *fakeServer) Resolve(ctx context.Context, q *strandlinev1.ResolveRequest) (*strandlinev1.ResolveResponse, error) {
	if f.silent != nil {
		f.silent(ctx)
		if ctx.Err() != nil {
			// An answer could still arrive before the client's own deadline.
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.identify(q.LogId); err != nil {
		return nil, err
	}
	if f.resolve != nil {
		return f.resolve(q)
	}
	s := f.sessions[q.SessionId]
	if offset, ok := s.answers[place{q.Epoch, q.Sequence}]; ok {
		return &strandlinev1.ResolveResponse{State: strandlinev1.ResolveState_RESOLVE_STATE_COMMITTED, Offset: offset, Epoch: s.epoch}, nil
	}
	if q.Final && !s.expired {
		s.epoch, s.next, s.lowest = s.epoch+1, 0, 0
	}
	return &strandlinev1.ResolveResponse{State: strandlinev1.ResolveState_RESOLVE_STATE_NEVER, Epoch: s.epoch}, nil
}

// identify refuses a caller that knows the log by another id.
func (f *fakeServer) identify(id uint64) error {
	if id == 0 || f.id == 0 || id == f.id {
		return nil
	}
	return refuse(record.LogReplaced, "log_id", fmt.Sprint(f.id))
}

func (f *fakeServer) GetInfo(_ context.Context, q *strandlinev1.GetInfoRequest) (*strandlinev1.GetInfoResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info := &strandlinev1.LogInfo{
		Name: "orders", Id: f.id, EndOffset: f.end, Leader: f.address,
		Config: &strandlinev1.LogConfig{Durability: strandlinev1.Durability_DURABILITY_MEMORY, Retention: durationpb.New(time.Minute)},
	}
	if f.describe != nil {
		if err := f.describe(q, info); err != nil {
			return nil, err
		}
	}
	return &strandlinev1.GetInfoResponse{Info: info}, nil
}

func (f *fakeServer) Digest(context.Context, *strandlinev1.DigestRequest) (*strandlinev1.DigestResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.digests++
	return &strandlinev1.DigestResponse{Digest: make([]byte, 32)}, nil
}

func (f *fakeServer) Prove(context.Context, *strandlinev1.ProveRequest) (*strandlinev1.ProveResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.digests++
	return nil, refuse(record.Precondition)
}

func (f *fakeServer) Read(q *strandlinev1.ReadRequest, stream grpc.ServerStreamingServer[strandlinev1.ReadResponse]) error {
	f.mu.Lock()
	n := f.reads
	f.reads++
	reading := f.reading
	f.mu.Unlock()
	return reading(n, q, stream)
}

// refusal is a refusal inside an append stream.
func refusal(r record.Reason, leader string) *strandlinev1.Refusal {
	return &strandlinev1.Refusal{
		Code: int32(codes.FailedPrecondition), Reason: r.String(), Message: "as the test wants it",
		Metadata: map[string]string{
			"retryable": strconv.FormatBool(r.Retryable()),
			"outcome":   client.Outcome(r.Outcome()).String(),
			"leader":    leader,
		},
	}
}

// refuse is the status that a call is refused with.
func refuse(r record.Reason, facts ...string) error {
	metadata := map[string]string{
		"retryable": strconv.FormatBool(r.Retryable()),
		"outcome":   client.Outcome(r.Outcome()).String(),
	}
	for i := 0; i < len(facts); i += 2 {
		metadata[facts[i]] = facts[i+1]
	}
	s, err := status.New(codes.FailedPrecondition, "as the test wants it").WithDetails(
		&errdetails.ErrorInfo{Reason: r.String(), Domain: "strandline.dev", Metadata: metadata})
	if err != nil {
		panic(err)
	}
	return s.Err()
}
