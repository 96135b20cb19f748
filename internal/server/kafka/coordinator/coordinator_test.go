package coordinator

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// testCoordinator is one over a node of its own, called without a connection.
type testCoordinator struct {
	*testing.T
	node *node.Node
	c    *Coordinator
	call *backend.Call
	term uint64
}

func open(t *testing.T) *testCoordinator {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	n, err := node.Open(settings.Options{DataDir: t.TempDir(), FormAlone: true, GRPCAddress: "self", SegmentBytes: 4 << 20, Logger: quiet})
	require.NoError(t, err)
	verbs := guard.New(n, guard.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
		require.NoError(t, n.Close(context.Background()))
	})
	d := &testCoordinator{T: t, node: n, c: New(verbs, budget.NewShares(1<<20), quiet, ctx, &running)}
	d.call = &backend.Call{
		Node: verbs, Ctx: ctx, Remote: &net.TCPAddr{}, Local: &net.TCPAddr{}, Release: func() {},
		Nodes: backend.NewNodes(verbs, "", ctx, &running),
	}
	require.NoError(t, d.c.found(ctx))
	d.term, err = d.c.ready(ctx)
	require.NoError(t, err)
	return d
}

// another is what another coordinator loads.
func (d *testCoordinator) another() *offsets {
	d.Helper()
	o := newOffsets(d.call.Node, budget.NewShares(1<<20))
	require.NoError(d, o.load(d.Context(), d.term))
	return o
}

func (d *testCoordinator) create(topic string) {
	d.Helper()
	_, err := d.node.CreateTopic(d.Context(), verbs.Caller{}, topic, 1, settings.Config{}, nil)
	require.NoError(d, err)
}

// commit commits an offset of partition 0 for group "billing".
func (d *testCoordinator) commit(topic string, offset int64) {
	d.Helper()
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.Generation = 7, "billing", -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	require.Zero(d, OffsetCommit(d.c, d.call, q).Topics[0].Partitions[0].ErrorCode)
}

// committed is what group "billing" has committed of partition 0.
func (d *testCoordinator) committed(topic string) int64 {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version, q.Group = 7, "billing"
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = topic, []int32{0}
	q.Topics = append(q.Topics, t)
	return OffsetFetch(d.c, d.call, q).Topics[0].Partitions[0].Offset
}

// eventually lets time pass until yes reports true.
func (d *testCoordinator) eventually(what string, yes func() bool) {
	d.Helper()
	require.Eventually(d, func() bool {
		d.c.Tick()
		return yes()
	}, time.Minute, 10*time.Millisecond, what)
}

// join makes a consumer a member of group "billing".
func (d *testCoordinator) join() (id string) {
	d.Helper()
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version, q.Group, q.ProtocolType = 3, "billing", "consumer"
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 60_000, 60_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte{0, 0}
	q.Protocols = append(q.Protocols, p)
	joined := make(chan *kmsg.JoinGroupResponse, 1)
	go func() { joined <- JoinGroup(d.c, d.call, q) }()
	d.eventually("a consumer joins", func() bool { return len(joined) > 0 })
	r := <-joined
	require.Zero(d, r.ErrorCode)
	return r.MemberID
}

func (d *testCoordinator) leave(id string) {
	d.Helper()
	q := kmsg.NewPtrLeaveGroupRequest()
	q.Group, q.MemberID = "billing", id
	require.Zero(d, LeaveGroup(d.c, d.call, q).ErrorCode)
}

func (d *testCoordinator) describe() kmsg.DescribeGroupsResponseGroup {
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Groups = []string{"billing"}
	return DescribeGroups(d.c, d.call, q).Groups[0]
}

func TestTheOffsetsOfAGroupWithMembersOutliveItsCoordinator(t *testing.T) {
	d := open(t)
	d.create("orders")
	d.commit("orders", 7)
	member := d.join()
	d.eventually("that it has members is recorded", func() bool { return d.c.offsets.of("billing").members })
	later := time.Now().Add(30 * day)
	taken := d.another()
	require.Empty(t, taken.state.outlived(later))
	d.leave(member)
	d.eventually("it is empty", func() bool { return d.describe().State == "Empty" })
	require.Equal(t, "consumer", d.describe().ProtocolType)

	// The next coordinator waits for members that may come yet, and forgets the
	// group when it has been empty for long.
	require.NoError(t, taken.write(d.Context(), d.term, taken.membership(nil, true, later)...))
	require.Empty(t, taken.state.outlived(later.Add(6*day)))
	require.Equal(t, []string{"billing"}, taken.state.outlived(later.Add(8*day)))
}

func TestTheOffsetsOfADeletedTopicAreForgotten(t *testing.T) {
	d := open(t)
	d.create("orders")
	d.create("other")
	d.commit("orders", 7)
	d.commit("other", 3)
	require.NoError(t, d.node.DeleteTopic(t.Context(), verbs.Caller{}, "orders"))
	require.EqualValues(t, -1, d.committed("orders"))
	d.create("orders")
	require.EqualValues(t, -1, d.committed("orders"), "a topic that has got the name since begins anew")

	require.NoError(t, d.c.clean(t.Context(), d.term, time.Now()))
	require.Len(t, d.c.offsets.of("billing").offsets, 1)
	d.commit("orders", 8)
	require.NoError(t, d.c.clean(t.Context(), d.term, time.Now()))
	require.EqualValues(t, 8, d.committed("orders"))
}

func TestAGroupWithoutMembersIsForgottenAfterSevenDays(t *testing.T) {
	d := open(t)
	d.create("orders")
	d.commit("orders", 7)
	require.NoError(t, d.c.clean(t.Context(), d.term, time.Now().Add(6*day)))
	require.NotNil(t, d.c.offsets.of("billing"))
	require.NoError(t, d.c.clean(t.Context(), d.term, time.Now().Add(8*day)))
	require.Nil(t, d.c.offsets.of("billing"))
}

// A leader that asks again, as its answer was lost, brings the same shares: they are not counted beside
// those that the group has.
func TestALeaderThatAsksAgainForItsShareGetsIt(t *testing.T) {
	d := open(t)
	q := kmsg.NewPtrSyncGroupRequest()
	q.Version, q.Group, q.Generation, q.MemberID = 3, "billing", 1, d.join()
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = q.MemberID, make([]byte, 400<<10) // of 1 MiB for all groups
	q.GroupAssignment = append(q.GroupAssignment, a)
	for range 3 {
		r := SyncGroup(d.c, d.call, q)
		require.Zero(t, r.ErrorCode)
		require.Len(t, r.MemberAssignment, 400<<10)
		require.Greater(t, d.c.memory.Used(), int64(400<<10), "it is counted before anybody else asks")
		d.c.Tick() // which counts what groups have
	}
}

func TestSharesThatLeaveNoRoomForOtherGroupsAreRefused(t *testing.T) {
	d := open(t)
	q := kmsg.NewPtrSyncGroupRequest()
	q.Version, q.Group, q.Generation, q.MemberID = 3, "billing", 1, d.join()
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = q.MemberID, make([]byte, 1100<<10)
	q.GroupAssignment = append(q.GroupAssignment, a)
	require.Equal(t, kerr.GroupMaxSizeReached.Code, SyncGroup(d.c, d.call, q).ErrorCode)
}
