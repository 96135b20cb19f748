package kafkaserver

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/coordinator"
)

func (d *testServer) member(group string, options ...kgo.Opt) *kgo.Client {
	return d.client(append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(50 * time.Millisecond), kgo.SessionTimeout(time.Minute),
	}, options...)...)
}

func (d *testServer) fill(partitions int32, n int) {
	d.Helper()
	c := d.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p := range partitions {
		for i := range n {
			r := &kgo.Record{Topic: "orders", Partition: p, Value: fmt.Appendf(nil, "%d-%d", p, i)}
			require.NoError(d, c.ProduceSync(d.ctx(), r).FirstErr())
		}
	}
}

func TestAGroupGoesOnWhereItHasCommittedAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir, Options{})
	d.create("orders", 2)
	d.fill(2, 5)
	c := d.member("billing")
	require.Len(t, d.poll(c, 10), 10)
	require.NoError(t, c.CommitUncommittedOffsets(d.ctx()))
	c.Close()
	d.server.Stop(t.Context())
	require.NoError(t, d.node.Close(t.Context()))

	d = open(t, dir, Options{})
	d.fill(2, 1)
	again := d.member("billing")
	require.ElementsMatch(t, []string{"0-0", "1-0"}, values(d.poll(again, 2)))
	require.Len(t, d.poll(d.member("reporting"), 12), 12, "another group begins at the start")
}

func TestMembersShareThePartitionsAndTakeOverFromOneThatLeaves(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 4)
	got := make(chan map[string][]int32, 16)
	assigned := func(_ context.Context, _ *kgo.Client, m map[string][]int32) { got <- m }
	first := d.member("billing", kgo.OnPartitionsAssigned(assigned), kgo.Balancers(kgo.RangeBalancer()))
	go poll(d, first)
	require.Len(t, (<-got)["orders"], 4)
	second := d.member("billing", kgo.OnPartitionsAssigned(assigned), kgo.Balancers(kgo.RangeBalancer()))
	go poll(d, second)
	require.Len(t, (<-got)["orders"], 2)
	require.Len(t, (<-got)["orders"], 2)
	described := d.describeGroup("billing")
	require.Equal(t, "Stable", described.State)
	require.Len(t, described.Members, 2)
	second.Close()
	require.Len(t, (<-got)["orders"], 4)
}

func TestMembersThatWaitForARebalanceTakeNothingOfTheBudget(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.raw().coordinated()
	d.raw().join("billing") // is answered, and then never joins again
	waiting := d.raw()
	waiting.send(joinRequest("billing"))
	require.Eventually(t, func() bool {
		return d.describeGroup("billing").State == "PreparingRebalance" && d.server.calls.Used() == 0
	}, time.Minute, time.Millisecond)
}

func joinRequest(group string) *kmsg.JoinGroupRequest {
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version, q.Group, q.ProtocolType = 3, group, "consumer"
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 60_000, 60_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte{0, 0}
	q.Protocols = append(q.Protocols, p)
	return q
}

func (c *raw) join(group string) {
	c.Helper()
	q := joinRequest(group)
	c.send(q)
	r, _ := c.receive(q)
	require.Zero(c, r.(*kmsg.JoinGroupResponse).ErrorCode)
}

func poll(d *testServer, c *kgo.Client) {
	for ctx := d.Context(); ctx.Err() == nil; {
		if c.PollFetches(ctx).IsClientClosed() {
			return
		}
	}
}

func (d *testServer) describeGroup(id string) kmsg.DescribeGroupsResponseGroup {
	d.Helper()
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Version, q.Groups = 5, []string{id}
	c := d.raw()
	c.send(q)
	r, _ := c.receive(q)
	return r.(*kmsg.DescribeGroupsResponse).Groups[0]
}

func (c *raw) commit(group string, generation int32, topic string, offset int64) int16 {
	c.Helper()
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.Generation = 7, group, generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset, p.Metadata = offset, new("note")
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	c.send(q)
	r, _ := c.receive(q)
	return r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// committed asks for partition 0 of a topic.
func (c *raw) committed(version int16, group, topic string) (int64, string) {
	c.Helper()
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version, q.Group = version, group
	if version < 8 {
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = topic, []int32{0}
		q.Topics = append(q.Topics, t)
		c.send(q)
		r, _ := c.receive(q)
		p := r.(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]
		return p.Offset, *p.Metadata
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	q.Groups = append(q.Groups, g)
	c.send(q)
	r, _ := c.receive(q)
	topics := r.(*kmsg.OffsetFetchResponse).Groups[0].Topics
	if len(topics) == 0 {
		return -1, ""
	}
	p := topics[0].Partitions[0]
	return p.Offset, *p.Metadata
}

// fetchGroup asks for all that a group has committed.
func (d *testServer) fetchGroup(group string) kmsg.OffsetFetchResponseGroup {
	d.Helper()
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version = 8
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	q.Groups = append(q.Groups, g)
	c := d.raw()
	c.send(q)
	r, _ := c.receive(q)
	return r.(*kmsg.OffsetFetchResponse).Groups[0]
}

// coordinated makes the log of the offsets, as looking for a coordinator does.
func (c *raw) coordinated() {
	c.Helper()
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.Version, q.CoordinatorKey = 2, "billing"
	c.send(q)
	r, _ := c.receive(q)
	require.Zero(c, r.(*kmsg.FindCoordinatorResponse).ErrorCode)
}

func TestOffsetsAreKeptWithWhatWasNotedOfThem(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	c := d.raw()
	require.Equal(t, kerr.NotCoordinator.Code, c.commit("billing", -1, "orders", 3), "nobody has asked who coordinates")
	c.coordinated()
	require.Zero(t, c.commit("billing", -1, "orders", 3))
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, c.commit("billing", -1, "missing", 3))
	for version := int16(1); version <= 8; version++ {
		offset, note := c.committed(version, "billing", "orders")
		require.EqualValues(t, 3, offset)
		require.Equal(t, "note", note)
	}
	offset, _ := c.committed(7, "other", "orders")
	require.EqualValues(t, -1, offset)
	require.Equal(t, "Empty", d.describeGroup("billing").State)
	require.Equal(t, "Dead", d.describeGroup("other").State)
	require.Equal(t, kerr.UnknownMemberID.Code, c.commit("billing", 2, "orders", 4), "there is no generation 2")

	list := kmsg.NewPtrListGroupsRequest()
	list.Version = 4
	c.send(list)
	r, _ := c.receive(list)
	require.Len(t, r.(*kmsg.ListGroupsResponse).Groups, 1)
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{"billing", "other"}
	c.send(remove)
	r, _ = c.receive(remove)
	require.Zero(t, r.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)
	require.Equal(t, kerr.GroupIDNotFound.Code, r.(*kmsg.DeleteGroupsResponse).Groups[1].ErrorCode)
	offset, _ = c.committed(7, "billing", "orders")
	require.EqualValues(t, -1, offset)
}

func TestAGroupWithMembersIsNotDeleted(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	d.fill(1, 1)
	d.poll(d.member("billing"), 1)
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{"billing"}
	c := d.raw()
	c.send(remove)
	r, _ := c.receive(remove)
	require.Equal(t, kerr.NonEmptyGroup.Code, r.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)
}

func TestThereAreNoTransactionsToCoordinate(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.Version, q.CoordinatorType, q.CoordinatorKeys = 4, coordinator.CoordinatesTransactions, []string{"transfers"}
	c := d.raw()
	c.send(q)
	r, _ := c.receive(q)
	require.Equal(t, kerr.TransactionalIDAuthorizationFailed.Code, r.(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode)
}

// A leader of a thousand members shares out more than other requests may hold.
func TestSharesOfSeveralMegabytesAreTaken(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.raw()
	c.coordinated()
	join := joinRequest("billing")
	c.send(join)
	r, _ := c.receive(join)
	joined := r.(*kmsg.JoinGroupResponse)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 3, "billing", joined.MemberID, joined.Generation
	share := kmsg.NewSyncGroupRequestGroupAssignment()
	share.MemberID, share.MemberAssignment = joined.MemberID, make([]byte, 3<<20)
	sync.GroupAssignment = append(sync.GroupAssignment, share)
	c.send(sync)
	r, _ = c.receive(sync)
	require.Zero(t, r.(*kmsg.SyncGroupResponse).ErrorCode)
	require.Len(t, r.(*kmsg.SyncGroupResponse).MemberAssignment, 3<<20)

	// Many small parts would become much more memory than they have bytes.
	sync.GroupAssignment = make([]kmsg.SyncGroupRequestGroupAssignment, 1<<18)
	_, _ = c.Write(c.frame(sync)) // it need not be taken whole
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err)
}

// Fetches wait; what they hold must not keep a heartbeat waiting.
func TestHeartbeatsDoNotWaitForFetches(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	require.NoError(t, d.server.polls.Acquire(t.Context(), d.server.polls.Size()))
	defer d.server.polls.Release(d.server.polls.Size())
	c := d.raw()
	q := kmsg.NewPtrHeartbeatRequest()
	q.Group = "billing"
	c.send(q)
	r, _ := c.receive(q)
	require.Equal(t, kerr.NotCoordinator.Code, r.(*kmsg.HeartbeatResponse).ErrorCode)
}

// Where the node's memory for groups is used up, existing groups continue and new ones
// are refused.
func TestGroupsAreRefusedWhereTheNodesMemoryIsUsedUp(t *testing.T) {
	t.Parallel()
	memory := budget.New(budget.Least)
	d := open(t, t.TempDir(), Options{Memory: memory})
	d.create("orders", 1)
	c := d.raw()
	c.coordinated()
	require.Zero(t, memory.Groups.Used())
	require.Zero(t, c.commit("tool", -1, "orders", 1))
	ofCommits := memory.Groups.Used()
	require.Positive(t, ofCommits)
	c.join("billing")
	require.Greater(t, memory.Groups.Used(), ofCommits)

	memory.Groups.Changed(0, memory.Groups.Size())
	join := joinRequest("other")
	c.send(join)
	r, _ := c.receive(join)
	require.Equal(t, kerr.GroupMaxSizeReached.Code, r.(*kmsg.JoinGroupResponse).ErrorCode)
	require.Equal(t, kerr.InvalidCommitOffsetSize.Code, c.commit("other", -1, "orders", 1))
	// A member that is there may come anew, and commit where it has committed.
	id := d.describeGroup("billing").Members[0].MemberID
	again := joinRequest("billing")
	again.MemberID = id
	c.send(again)
	r, _ = c.receive(again)
	require.Zero(t, r.(*kmsg.JoinGroupResponse).ErrorCode)
	require.Zero(t, c.commit("tool", -1, "orders", 2))
	memory.Groups.Changed(memory.Groups.Size(), 0)
	c.join("other")
}

func TestAGroupThatFillsItsShareLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	memory := budget.New(budget.Least)
	d := open(t, t.TempDir(), Options{Memory: memory})
	c := d.raw()
	c.coordinated()
	join := joinRequest("greedy")
	join.Protocols[0].Metadata = make([]byte, 300<<10)
	for i := range 3 { // all but the first wait for the others to come again
		d.raw().send(join)
		require.Eventually(t, func() bool { return memory.Groups.Used() > int64((i+1)*300<<10) }, time.Minute, time.Millisecond)
	}
	c.send(join)
	r, _ := c.receive(join)
	require.Equal(t, kerr.GroupMaxSizeReached.Code, r.(*kmsg.JoinGroupResponse).ErrorCode)
	require.Less(t, memory.Groups.Used(), memory.Groups.Size()*2/3)
	c.join("billing")
}

// interrupted is a node that calls a function once, at one moment.
type interrupted struct {
	backend.Node
	mu           sync.Mutex
	beforeAppend func() // to the log of offsets
	beforeInfo   func() // of the log of offsets
}

func (i *interrupted) take(f *func()) {
	i.mu.Lock()
	run := *f
	*f = nil
	i.mu.Unlock()
	if run != nil {
		run()
	}
}

func (i *interrupted) set(f *func(), run func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	*f = run
}

func (i *interrupted) Append(c verbs.Caller, log string, a *sequence.Append, written, done func(sequence.Answer)) {
	if log == backend.OffsetsLog {
		i.take(&i.beforeAppend)
	}
	i.Node.Append(c, log, a, written, done)
}

func (i *interrupted) Info(ctx context.Context, c verbs.Caller, log string) (verbs.Info, error) {
	if log == backend.OffsetsLog {
		i.take(&i.beforeInfo)
	}
	return i.Node.Info(ctx, c, log)
}

// openInterrupted opens a cluster of which every node can be interrupted; a
// coordinates, and group "billing" has committed offset 1.
func openInterrupted(t *testing.T) (all testServers, a *interrupted) {
	nodes := map[string]*interrupted{}
	all = openClusterOver(t, func(name string, n backend.Node) backend.Node {
		nodes[name] = &interrupted{Node: n}
		return nodes[name]
	})
	all["a"].createReplicated("orders", 1, 3)
	all["a"].raw().coordinated()
	all.leader(backend.OffsetsLog, 3)
	all["b"].toLead(backend.OffsetsLog, all["a"])
	require.Zero(t, all["a"].raw().commit("billing", -1, "orders", 1))
	return all, nodes["a"]
}

func TestACoordinatorThatHasBeenReplacedDoesNotAnswerFromThePast(t *testing.T) {
	t.Parallel()
	all, a := openInterrupted(t)
	a.set(&a.beforeInfo, func() {
		all["a"].toLead(backend.OffsetsLog, all["b"])
		require.Zero(t, all["b"].raw().commit("billing", -1, "orders", 2))
	})
	group := all["a"].fetchGroup("billing")
	require.Equal(t, kerr.NotCoordinator.Code, group.ErrorCode)
	offset, _ := all["b"].raw().committed(7, "billing", "orders")
	require.EqualValues(t, 2, offset)
}

func TestACommitThatWaitedWhileAnotherNodeCoordinatedIsNotAppended(t *testing.T) {
	t.Parallel()
	all, a := openInterrupted(t)
	a.set(&a.beforeAppend, func() {
		all["a"].toLead(backend.OffsetsLog, all["b"])
		require.Zero(t, all["b"].raw().commit("billing", -1, "orders", 3))
		all["b"].toLead(backend.OffsetsLog, all["a"])
	})
	require.Equal(t, kerr.NotCoordinator.Code, all["a"].raw().commit("billing", -1, "orders", 2))
	offset, _ := all["a"].raw().committed(7, "billing", "orders")
	require.EqualValues(t, 3, offset)
}

// created notes what logs are created with.
type created struct {
	backend.Node
	configs chan settings.Config
}

func (n created) CreateLog(ctx context.Context, c verbs.Caller, name string, config settings.Config) (verbs.Info, error) {
	n.configs <- config
	return n.Node.CreateLog(ctx, c, name, config)
}

// A log that is created without a number of replicas gets them as nodes come; one with a
// number would for ever have as many as the cluster had nodes when a group first committed.
func TestTheLogOfOffsetsHasNoNumberOfReplicas(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	n := created{guard.New(d.node, guard.Options{}), make(chan settings.Config, 1)}
	d.over(n).raw().coordinated()
	require.Equal(t, settings.Config{}, <-n.configs)
}
