package client_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/wire"
)

// fakeCluster is a log of n records held by a leader and followers: fake servers
// that each report who holds it. The leader is the last.
func fakeCluster(t *testing.T, nodes, n int) []*fakeServer {
	t.Helper()
	servers := make([]*fakeServer, nodes)
	var holders []*strandlinev1.ReplicaAddress
	for i := range servers {
		f := newFakeServer(t)
		f.fill(t, n)
		f.reading = whole(f)
		servers[i] = f
		holders = append(holders, &strandlinev1.ReplicaAddress{Address: f.address, Leader: i == nodes-1})
	}
	for _, f := range servers {
		f.describe = func(_ *strandlinev1.GetInfoRequest, info *strandlinev1.LogInfo) error {
			info.Leader, info.Replicas = holders[nodes-1].Address, holders
			return nil
		}
	}
	return servers
}

func addresses(servers []*fakeServer) []string {
	var all []string
	for _, f := range servers {
		all = append(all, f.address)
	}
	return all
}

func dial(t *testing.T, servers []*fakeServer, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(addresses(servers), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func readerOf(t *testing.T, c *client.Client, opts ...client.ReaderOption) *client.Reader {
	t.Helper()
	r, err := c.Reader(t.Context(), "orders", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// refusing turns every read away.
func refusing(r record.Reason, facts ...string) func(int, *strandlinev1.ReadRequest, grpc.ServerStream) error {
	return func(int, *strandlinev1.ReadRequest, grpc.ServerStream) error { return refuse(r, facts...) }
}

func TestAReaderGoesToTheLeaderAndReadsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 3, 100)
	leader := servers[2]
	var asked atomic.Pointer[strandlinev1.ReadRequest]
	serve := leader.reading
	leader.reading = func(n int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
		asked.Store(q)
		return serve(n, q, s)
	}
	requireRecords(t, readerOf(t, dial(t, servers[:1])), 0, 100)
	require.Zero(t, servers[0].count(&servers[0].reads))
	require.Equal(t, strandlinev1.ReadConsistency_READ_CONSISTENCY_LINEARIZABLE, asked.Load().GetLevel())
}

// A follower that is asked does not refuse, so the leader has to be looked for first.
func TestADigestIsThatOfTheLeader(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 3, 100)
	asked := func() (counts [3]int) {
		for i, f := range servers {
			counts[i] = f.count(&f.digests)
		}
		return counts
	}
	_, err := dial(t, servers[:2]).Digest(t.Context(), "orders", client.DigestAtEnd)
	require.NoError(t, err)
	require.Equal(t, [3]int{0, 0, 1}, asked())
	_, err = dial(t, servers[:2]).Prove(t.Context(), "orders", 3, client.Digest{})
	require.ErrorIs(t, err, client.ErrPrecondition)
	require.Equal(t, [3]int{0, 0, 2}, asked())

	_, err = dial(t, servers[:2]).KnownDigest(t.Context(), "orders", client.DigestAtEnd)
	require.NoError(t, err)
	_, err = dial(t, servers[1:]).ProveKnown(t.Context(), "orders", 3, client.Digest{})
	require.ErrorIs(t, err, client.ErrPrecondition)
	require.Equal(t, [3]int{1, 1, 2}, asked())
}

func TestAReaderOfAnyReplicaStaysWithTheNodeItWasGiven(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 3, 100)
	follower := servers[0]
	requireRecords(t, readerOf(t, dial(t, servers[:1]), client.WithAnyReplica()), 0, 100)
	require.Equal(t, 1, follower.count(&follower.reads))

	follower.describe = func(q *strandlinev1.GetInfoRequest, info *strandlinev1.LogInfo) error {
		info.EndOffset = 70 // it lags
		if !q.AllowStale {
			return refuse(record.NotLeader, "leader", servers[2].address)
		}
		return nil
	}
	r := readerOf(t, dial(t, servers[:1]), client.WithAnyReplica(), client.WithStartAtTail())
	require.EqualValues(t, 70, r.Offset(), "the tail that this node knows")

	follower.reading = refusing(record.NotLeader, "leader", servers[2].address)
	r = readerOf(t, dial(t, servers[:1], client.WithRetryTime(0)), client.WithAnyReplica())
	_, err := r.Next(t.Context())
	require.ErrorIs(t, err, client.ErrNotLeader, "what another node has says nothing about this one")
}

func TestAReaderThatPrefersFollowersSparesTheLeader(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 3, 100)
	c := dial(t, servers[2:])
	for range 10 {
		requireRecords(t, readerOf(t, c, client.WithPreferFollower()), 0, 100)
	}
	require.Zero(t, servers[2].count(&servers[2].reads))
	require.Equal(t, 10, servers[0].count(&servers[0].reads)+servers[1].count(&servers[1].reads))
}

func TestAReaderThatPrefersFollowersLeavesReadReplicasForWhenNoneServes(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 4, 100)
	var known strandlinev1.LogInfo
	require.NoError(t, servers[0].describe(nil, &known))
	known.Replicas[0].ReadReplica, known.Replicas[1].ReadReplica = true, true
	follower, leader := servers[2], servers[3]
	c := dial(t, servers)
	for range 10 {
		requireRecords(t, readerOf(t, c, client.WithPreferFollower()), 0, 100)
	}
	require.Equal(t, 10, follower.count(&follower.reads))

	follower.stop()
	for range 10 {
		requireRecords(t, readerOf(t, c, client.WithPreferFollower()), 0, 100)
	}
	require.Zero(t, leader.count(&leader.reads), "read replicas come before the leader")
}

func TestAReaderMovesBetweenReplicasWithoutGapOrDuplicate(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"stale":       refuse(record.Stale),
		"leaderless":  refuse(record.NotLeader),
		"damaged":     refuse(record.Corrupt),
		"stopping":    refuse(record.ShuttingDown),
		"broken":      status.Error(codes.Unavailable, "the connection broke"),
		"lags behind": refuse(record.OffsetBeyondEnd, "end_offset", "5"),
	} {
		t.Run(name, func(t *testing.T) {
			servers := fakeCluster(t, 3, 2000)
			for _, f := range servers {
				f.reading = func(n int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
					frames := 0
					return f.serve(q, s, func() error {
						if frames++; frames > 1+n%5 {
							return failure
						}
						return nil
					})
				}
			}
			r := readerOf(t, dial(t, servers), client.WithPreferFollower())
			requireRecords(t, r, 0, 2000)
			for _, f := range servers {
				require.NotZero(t, f.count(&f.reads), "every replica had its turn")
			}
		})
	}
}

func TestTheLeaderServesWhenNoFollowerIsLeft(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 3, 100)
	servers[0].stop()
	servers[1].reading = refusing(record.Stale)
	requireRecords(t, readerOf(t, dial(t, servers), client.WithPreferFollower()), 0, 100)
	require.Equal(t, 1, servers[2].count(&servers[2].reads))
}

func TestABoundThatNoReplicaKeepsIsAnError(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 2, 100)
	for _, f := range servers {
		f.reading = func(n int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
			if q.GetMaxAge().AsDuration() != time.Second {
				return refuse(record.Invalid)
			}
			return refuse(record.Stale)
		}
	}
	r := readerOf(t, dial(t, servers, client.WithRetryTime(0)), client.WithMaxStaleness(time.Second))
	_, err := r.Next(t.Context())
	require.ErrorIs(t, err, client.ErrStale)
	for _, f := range servers {
		require.Equal(t, 1, f.count(&f.reads), "each was asked")
	}
}

func TestAReaderReportsHowOldItsKnowledgeIs(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.fill(t, 100)
	half := int64(f.batches[0].End())
	f.reading = func(_ int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
		if q.GetAtLeastOffset() != 4 {
			return refuse(record.Invalid)
		}
		for _, frame := range []*wire.ReadFrame{f.frameAt(0, half, 100), f.frameAt(half, 100, 100)} {
			if frame.HasAge = frame.First > 0; frame.HasAge {
				frame.Age = 3 * time.Second
			}
			if err := s.SendMsg(frame); err != nil {
				return err
			}
		}
		return nil
	}
	r := f.reader(t, client.WithAtLeast(4))
	requireRecords(t, r, 0, half)
	_, known := r.Age()
	require.False(t, known)
	requireRecords(t, r, half, 100)
	age, known := r.Age()
	require.True(t, known)
	require.Equal(t, 3*time.Second, age)
	_, err := r.Next(t.Context())
	require.Equal(t, io.EOF, err)
}

func TestABoundThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	for _, o := range []client.ReaderOption{client.WithAtLeast(-1), client.WithMaxStaleness(0), client.WithMaxStaleness(99 * time.Millisecond)} {
		_, err := f.client(t).Reader(t.Context(), "orders", o)
		require.ErrorIs(t, err, client.ErrInvalid)
	}
}

// notLeading makes a node name another as the leader, in every answer.
func notLeading(f *fakeServer, leader string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader = leader
	f.describe = func(*strandlinev1.GetInfoRequest, *strandlinev1.LogInfo) error {
		return refuse(record.NotLeader, "leader", leader)
	}
}

func TestAHintToADeadNodeDoesNotTrapAClient(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 3, 1)
	dead := servers[1]
	dead.stop()
	notLeading(servers[0], dead.address)
	servers[2].describe = nil
	for _, order := range [][]int{{0, 1, 2}, {1, 0, 2}, {0, 2, 1}} {
		c := dial(t, []*fakeServer{servers[order[0]], servers[order[1]], servers[order[2]]})
		info, err := c.Admin().Info(t.Context(), "orders")
		require.NoError(t, err, order)
		require.Equal(t, servers[2].address, info.Leader)
	}
}

func TestNodesThatPointAtEachOtherDoNotHideTheLeader(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 3, 1)
	notLeading(servers[0], servers[1].address)
	notLeading(servers[1], servers[0].address)
	servers[2].describe = nil
	info, err := dial(t, servers).Admin().Info(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, servers[2].address, info.Leader)
}

func TestAProducerFollowsItsLogToTheNextLeader(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 3, 0)
	p, err := dial(t, servers).Producer(t.Context(), "orders")
	require.NoError(t, err)
	_, err = p.Append(t.Context(), []byte("one"))
	require.NoError(t, err)
	// The first node dies; the second still believes in it; the third leads,
	// and knows the session.
	servers[0].mu.Lock()
	batches, end, sessions := servers[0].batches, servers[0].end, servers[0].sessions
	servers[0].mu.Unlock()
	servers[0].stop()
	servers[1].decide = func(int, *wire.AppendRequest) fate {
		return fate{refuse: record.NotLeader, leader: servers[0].address}
	}
	servers[2].mu.Lock()
	servers[2].batches, servers[2].end, servers[2].sessions = batches, end, sessions
	servers[2].mu.Unlock()
	offset, err := p.Append(t.Context(), []byte("two"))
	require.NoError(t, err)
	require.EqualValues(t, 1, offset)
	require.Equal(t, []string{"one", "two"}, servers[2].values(t))
	require.NoError(t, p.Close(t.Context()))
}

func TestALeaderThatFallsSilentIsLeftForTheNextOne(t *testing.T) {
	t.Parallel()
	servers := fakeCluster(t, 2, 0)
	paused, next := servers[0], servers[1]
	paused.decide = func(int, *wire.AppendRequest) fate { return fate{neverAnswer: true} }
	next.sessions[1] = &fakeSession{answers: make(map[place]int64)}
	next.describe = func(_ *strandlinev1.GetInfoRequest, info *strandlinev1.LogInfo) error {
		info.Leader, info.LeaderTerm = next.address, 2
		return nil
	}
	p, err := dial(t, servers).Producer(t.Context(), "orders")
	require.NoError(t, err)
	_, err = p.Append(t.Context(), []byte("one"))
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, next.values(t))
	require.NoError(t, p.Close(t.Context()))
}

// troubles collects what a trouble handler gets, without repetitions.
type troubles struct {
	mu       sync.Mutex
	reported []error
}

func (l *troubles) note(_ string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.reported); n == 0 || !errors.Is(l.reported[n-1], err) {
		l.reported = append(l.reported, err)
	}
}

func TestTroubleIsReportedAndSoIsItsEnd(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.decide = func(n int, _ *wire.AppendRequest) fate {
		if n > 0 && n < 4 {
			return fate{refuse: record.NotLeader}
		}
		return fate{}
	}
	var l troubles
	c := dial(t, []*fakeServer{f}, client.WithTroubleHandler(l.note))
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	for range 3 {
		_, err = p.Append(t.Context(), []byte("v"))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close(t.Context()))
	require.Len(t, l.reported, 2)
	require.ErrorIs(t, l.reported[0], client.ErrNotLeader)
	require.NoError(t, l.reported[1])

	l.reported = nil
	f.reading = func(n int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
		if n < 3 {
			return refuse(record.ShuttingDown)
		}
		return f.serve(q, s, func() error { return nil })
	}
	r := readerOf(t, c)
	for range 3 {
		_, err := r.Next(t.Context())
		require.NoError(t, err)
	}
	require.Len(t, l.reported, 2)
	require.ErrorIs(t, l.reported[0], client.ErrShuttingDown)
	require.NoError(t, l.reported[1])
}

func TestTroubleWithOpeningIsReported(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	tries := 0
	f.open = func(context.Context) error {
		if tries++; tries < 4 {
			return refuse(record.Busy)
		}
		return nil
	}
	var l troubles
	p, err := dial(t, []*fakeServer{f}, client.WithTroubleHandler(l.note)).Producer(t.Context(), "orders")
	require.NoError(t, err)
	require.NoError(t, p.Close(t.Context()))
	require.Len(t, l.reported, 2)
	require.ErrorIs(t, l.reported[0], client.ErrBusy)
	require.NoError(t, l.reported[1])
}
