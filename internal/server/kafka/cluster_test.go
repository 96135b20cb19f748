package kafkaserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/transport"
	"strandline.dev/internal/transport/peer"
)

// testServers are the nodes of a cluster in this process, by name, each with a Kafka
// port. Hidden nodes announce no address to others.
type testServers map[string]*testServer

var nodeNames = []string{"a", "b", "c"}

func openCluster(t *testing.T, hidden ...string) testServers {
	t.Helper()
	return openClusterOver(t, func(_ string, n backend.Node) backend.Node { return n }, hidden...)
}

// openClusterOver opens testServers to what over makes of each node.
func openClusterOver(t *testing.T, over func(name string, n backend.Node) backend.Node, hidden ...string) testServers {
	t.Helper()
	return openClusterIn(t, nil, over, hidden...)
}

// openClusterIn is openClusterOver with labels of nodes.
func openClusterIn(t *testing.T, labels map[string]cluster.Label, over func(name string, n backend.Node) backend.Node, hidden ...string) testServers {
	t.Helper()
	peers, listeners := map[string]string{}, map[string]net.Listener{}
	for _, name := range nodeNames {
		l, err := net.Listen("tcp", "127.5.0.2:0")
		require.NoError(t, err)
		peers[name], listeners[name] = l.Addr().String(), l
	}
	all := testServers{}
	for _, name := range nodeNames {
		all[name] = openMember(t, name, labels[name], peers, listeners[name], !has(hidden, name), over)
	}
	var err error
	all["a"].eventually("the cluster is formed", func() bool {
		_, err = all["a"].node.InitCluster(t.Context(), verbs.Caller{})
		return !errors.Is(err, &record.Refusal{Reason: record.Busy}) // another node may not answer yet
	})
	require.NoError(t, err)
	for _, d := range all {
		d.eventually("every node knows all others and their addresses", func() bool {
			members, _ := d.node.Members()
			for _, m := range members {
				if !m.Up || m.Kafka == "" && !has(hidden, m.Name) || len(m.Labels) == 0 && labels[m.Name] != "" {
					return false
				}
			}
			return len(members) == len(nodeNames)
		})
	}
	return all
}

func has(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

func openMember(t *testing.T, name string, label cluster.Label, peers map[string]string, l net.Listener, shown bool, over func(string, backend.Node) backend.Node) *testServer {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	kafka, err := net.Listen("tcp", "127.5.0.1:0")
	require.NoError(t, err)
	o := settings.Options{DataDir: t.TempDir(), Name: name, GRPCAddress: peers[name], Peers: peers, SegmentBytes: 4 << 20, KeepLeaders: true, Logger: quiet}
	if label != "" {
		o.Labels = []cluster.Label{label}
	}
	if shown {
		o.KafkaAddress = kafka.Addr().String()
	}
	n, err := node.Open(o)
	require.NoError(t, err)
	d := &testServer{TB: t, node: n, server: New(over(name, guard.New(n, guard.Options{})), Options{Logger: quiet}), address: kafka.Addr().String()}
	sorted, others := transport.Split(l, peer.Magic)
	fromPeers := sorted[0]
	served := make(chan error, 2)
	go func() { served <- n.ServePeers(fromPeers) }()
	go func() { served <- d.server.Serve(kafka) }()
	d.stop = func() {
		d.server.Stop(context.Background())
		require.NoError(t, n.Close(context.Background()))
		_, _ = fromPeers.Close(), others.Close()
		for range 2 {
			require.NoError(t, <-served)
		}
		d.stop = func() {}
	}
	t.Cleanup(func() { d.stop() })
	return d
}

// leader waits for the node that leads a log of so many replicas; followers are
// the others that hold it.
func (all testServers) leader(log string, replicas int) (leader *testServer, followers []*testServer) {
	all["a"].Helper()
	all["a"].eventually(log+" is led and all its replicas are known", func() bool {
		leader, followers = nil, nil
		for _, name := range nodeNames {
			b, err := all[name].node.Bounds(verbs.Caller{}, log)
			switch {
			case err != nil:
			case b.Leading:
				leader = all[name]
			default:
				followers = append(followers, all[name])
			}
		}
		return leader != nil && len(followers) == replicas-1
	})
	return leader, followers
}

// append appends to a log of so many replicas where it is led, which is elsewhere when its
// nodes have not heard of each other for a while.
func (all testServers) append(log string, replicas int, values ...string) (leader *testServer, followers []*testServer) {
	all["a"].Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		leader, followers = all.leader(log, replicas)
		_, refusal := leader.tryAppend(log, batchOf(leader.TB, record.None, values...))
		if refusal == nil {
			return leader, followers
		}
		require.Equal(leader, record.NotLeader, refusal.Reason)
		require.True(leader, time.Now().Before(end))
	}
}

// eventually waits for what other goroutines bring about.
func (d *testServer) eventually(what string, yes func() bool) {
	d.Helper()
	require.Eventually(d, yes, time.Minute, 5*time.Millisecond, what)
}

// id is what clients call this node.
func (d *testServer) id() int32 {
	_, self := d.node.Members()
	return int32(self)
}

// fetchFrom fetches topic "orders" from its beginning for a client in a rack.
// An answer that waited for its time would come after the connection's.
func (d *testServer) fetchFrom(rack string) kmsg.FetchResponseTopicPartition {
	d.Helper()
	q := fetchRequest(11, 120_000, 1, 1<<20, 0, "orders")
	q.Rack = rack
	p := d.raw().fetch(q).Topics[0].Partitions[0]
	require.Zero(d, p.ErrorCode)
	return p
}

func TestAConsumerInTheRackOfAFollowerIsSentThereAndServed(t *testing.T) {
	t.Parallel()
	all := openCluster(t)
	all["a"].createReplicated("orders", 1, 3)
	leader, followers := all.append("orders", 3, "1", "2")
	near, far := followers[0], followers[1]
	stored := leader.stored("orders")

	for _, follower := range followers {
		leader.eventually("the leader hears that the follower has the records", func() bool {
			sent := leader.fetchFrom(follower.node.Name())
			return sent.PreferredReadReplica == follower.id() && len(sent.RecordBatches) == 0 // they come from there
		})
	}
	near.eventually("it knows that they are committed", func() bool {
		b, err := near.node.Bounds(verbs.Caller{}, "orders")
		return err == nil && b.End == 2
	})
	served := near.fetchFrom(near.node.Name())
	require.EqualValues(t, backend.NoBroker, served.PreferredReadReplica)
	require.Equal(t, stored, served.RecordBatches)
	for _, rack := range []string{"", leader.node.Name(), "elsewhere"} {
		p := leader.fetchFrom(rack)
		require.EqualValues(t, backend.NoBroker, p.PreferredReadReplica, "rack %q", rack)
		require.Equal(t, stored, p.RecordBatches, "rack %q", rack)
	}

	// A client that gets this answer follows, and one that has no rack stays.
	before := far.received(fetchKey)
	orders := kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().AtStart()}})
	far.eventually("a consumer follows", func() bool { // unless the leader has not heard of the follower lately
		require.Equal(t, []string{"1", "2"}, values(far.poll(far.client(orders, kgo.Rack(far.node.Name())), 2)))
		return far.received(fetchKey) > before
	})
	require.Equal(t, []string{"1", "2"}, values(near.poll(near.client(orders), 2)))
	require.Equal(t, 1, near.received(fetchKey), "the one of above")

	near.stop()
	leader.eventually("the leader serves those in the rack of a node that is down", func() bool {
		return string(leader.fetchFrom(near.node.Name()).RecordBatches) == string(stored)
	})
}

// The rack of a consumer is the datacenter of its broker: the label dc.
func TestAConsumerInTheRackOfAReadReplicaIsSentThereAndServed(t *testing.T) {
	t.Parallel()
	all := openClusterIn(t, map[string]cluster.Label{"a": "dc=fra", "b": "dc=fra", "c": "dc=syd"}, func(_ string, n backend.Node) backend.Node { return n })
	near := all["c"]
	all["a"].createReplicated("orders", 1, 2)
	info, err := near.node.KnownInfo(verbs.Caller{}, "orders")
	require.NoError(t, err)
	info.Config.Rule = &cluster.Rule{Out: []cluster.Label{"dc=syd"}, Readers: []cluster.ReadReplicas{{Label: "dc=syd", Count: 1}}}
	_, err = near.node.ConfigureLog(t.Context(), verbs.Caller{}, "orders", info.Config)
	require.NoError(t, err)
	near.eventually("the log has its read replica", func() bool {
		l, err := near.node.KnownInfo(verbs.Caller{}, "orders")
		return err == nil && len(l.Replicas) == 3 && l.Replicas[2].Reader && l.Replicas[2].Node == "c"
	})
	leader, _ := all.append("orders", 3, "1", "2")
	require.NotEqual(t, near, leader, "a read replica never leads")
	stored := leader.stored("orders")

	for _, rack := range []string{"syd", near.node.Name()} {
		leader.eventually("the leader hears that the read replica has the records", func() bool {
			return leader.fetchFrom(rack).PreferredReadReplica == near.id()
		})
	}
	require.Equal(t, stored, leader.fetchFrom("fra").RecordBatches, "its own rack")
	near.eventually("the read replica knows that they are committed", func() bool {
		b, err := near.node.Bounds(verbs.Caller{}, "orders")
		return err == nil && b.End == 2
	})
	served := near.fetchFrom("syd")
	require.Equal(t, stored, served.RecordBatches)
	require.EqualValues(t, 2, served.HighWatermark)
	require.EqualValues(t, backend.NoBroker, served.PreferredReadReplica)

	for _, d := range all {
		var m *kmsg.MetadataResponse
		var p kmsg.MetadataResponseTopicPartition
		d.eventually("it knows that all are up", func() bool {
			m = d.metadata("orders")
			p = m.Topics[0].Partitions[0]
			return p.Leader == leader.id() && len(p.OfflineReplicas) == 0
		})
		require.ElementsMatch(t, []int32{all["a"].id(), all["b"].id(), near.id()}, p.Replicas)
		require.ElementsMatch(t, []int32{all["a"].id(), all["b"].id()}, p.ISR, "it is no voter")
		for _, b := range m.Brokers {
			require.Equal(t, b.NodeID == near.id(), *b.Rack == "syd", "%v", b)
		}
	}

	before := near.received(fetchKey)
	orders := kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().AtStart()}})
	near.eventually("a consumer follows", func() bool { // unless the leader has not heard of the read replica lately
		require.Equal(t, []string{"1", "2"}, values(leader.poll(leader.client(orders, kgo.Rack("syd")), 2)))
		return near.received(fetchKey) > before
	})
}

// silenced is a node that gets no answer from the leaders of what it follows.
type silenced struct{ backend.Node }

func (s silenced) KnownInfo(c verbs.Caller, log string) (verbs.Info, error) {
	info, err := s.Node.KnownInfo(c, log)
	info.Age = reading.UnknownAge
	return info, err
}

func (silenced) Info(ctx context.Context, _ verbs.Caller, _ string) (verbs.Info, error) {
	<-ctx.Done()
	return verbs.Info{}, ctx.Err()
}

func TestAConsumerIsSentAwayFromAFollowerThatIsCutOff(t *testing.T) {
	t.Parallel()
	all := openCluster(t)
	all["a"].createReplicated("orders", 1, 3)
	_, followers := all.append("orders", 3, "1")
	near := followers[0].over(silenced{guard.New(followers[0].node, guard.Options{})})
	q := fetchRequest(11, 120_000, 1, 1<<20, 0, "orders")
	q.Rack = near.node.Name()
	near.eventually("it has the record", func() bool {
		b, err := near.node.Bounds(verbs.Caller{}, "orders")
		return err == nil && b.End == 1
	})
	require.NotEmpty(t, near.raw().fetch(q).Topics[0].Partitions[0].RecordBatches, "what it has it gives")
	q.Topics[0].Partitions[0].FetchOffset = 1
	require.Equal(t, kerr.NotLeaderForPartition.Code, near.raw().fetch(q).Topics[0].Partitions[0].ErrorCode, "and it has no more")
}

// lagging is a leader one of whose followers has stored nothing.
type lagging struct {
	backend.Node
	behind uint64
	end    record.Offset
}

func (l lagging) StoredBy(ctx context.Context, c verbs.Caller, log string) (map[uint64]record.Offset, error) {
	ends, err := l.Node.StoredBy(ctx, c, log)
	if err == nil {
		ends[l.behind] = l.end
	}
	return ends, err
}

func TestALeaderServesWhatTheNearerNodeDoesNotHaveYet(t *testing.T) {
	t.Parallel()
	all := openCluster(t)
	all["a"].createReplicated("orders", 1, 3)
	all.append("orders", 3, "1")
	leader, followers := all.append("orders", 3, "2")
	near := followers[0]
	for end, sent := range map[record.Offset]int32{0: backend.NoBroker, 1: near.id(), 2: near.id()} {
		d := leader.over(lagging{guard.New(leader.node, guard.Options{}), uint64(near.id()), end})
		d.eventually(fmt.Sprintf("a client is sent to %d where the nearer one stored up to %d", sent, end), func() bool {
			return d.fetchFrom(near.node.Name()).PreferredReadReplica == sent
		})
	}
}

func TestALeaderSendsNobodyToANodeThatDoesNotHoldTheLog(t *testing.T) {
	t.Parallel()
	all := openCluster(t)
	all["a"].createReplicated("orders", 1, 1)
	leader, _ := all.append("orders", 1, "1")
	for _, rack := range nodeNames {
		require.Equal(t, leader.stored("orders"), leader.fetchFrom(rack).RecordBatches)
	}
}

func TestEveryNodeDescribesThePartitionsThatItHolds(t *testing.T) {
	t.Parallel()
	all := openCluster(t)
	const partitions = 6
	all["a"].createReplicated("orders", partitions, 1)
	on := map[int32]string{} // who holds a partition
	for p := range int32(partitions) {
		leader, _ := all.append(cluster.PartitionLog("orders", p), 1, "1")
		on[p] = leader.node.Name()
	}
	described := 0
	for _, name := range nodeNames {
		for _, p := range all[name].logDirs() {
			require.Equal(t, name, on[p.Partition], "partition %d", p.Partition)
			require.Positive(t, p.Size)
			described++
		}
	}
	require.Equal(t, partitions, described)
}

// logDirs describes the partitions of topic "orders" on a node.
func (d *testServer) logDirs() []kmsg.DescribeLogDirsResponseDirTopicPartition {
	d.Helper()
	q := kmsg.NewPtrDescribeLogDirsRequest()
	q.Version = 4
	c := d.raw()
	c.send(q)
	r, _ := c.receive(q)
	dirs := r.(*kmsg.DescribeLogDirsResponse).Dirs
	require.Len(d, dirs, 1)
	require.Zero(d, dirs[0].ErrorCode)
	if len(dirs[0].Topics) == 0 {
		return nil
	}
	require.Len(d, dirs[0].Topics, 1)
	return dirs[0].Topics[0].Partitions
}

func TestANodeWithoutAnAddressForKafkaIsNoBrokerForClientsOfOthers(t *testing.T) {
	t.Parallel()
	all := openCluster(t, "c")
	a, c := all["a"], all["c"]
	require.Len(t, a.metadata().Brokers, 2)
	require.Len(t, c.metadata().Brokers, 3, "a client that has found it can use it")

	a.createReplicated("orders", 1, 3)
	all.leader("orders", 3)
	a.toLead("orders", c)
	p := a.metadata("orders").Topics[0].Partitions[0]
	require.Equal(t, kerr.LeaderNotAvailable.Code, p.ErrorCode)
	require.EqualValues(t, backend.NoBroker, p.Leader)
	require.Len(t, p.Replicas, 3)
	require.Equal(t, []int32{c.id()}, p.OfflineReplicas)
	p = c.metadata("orders").Topics[0].Partitions[0]
	require.Zero(t, p.ErrorCode)
	require.Equal(t, c.id(), p.Leader)

	c.toLead("orders", a)
	a.appendDirectly("orders", batchOf(t, record.None, "1"))
	require.Equal(t, a.stored("orders"), a.fetchFrom("c").RecordBatches, "nobody is sent there")
}

func TestACoordinatorThatClientsCannotReachIsNotAvailable(t *testing.T) {
	t.Parallel()
	all := openCluster(t, "c")
	a, c := all["a"], all["c"]
	a.findCoordinator() // makes the log of offsets
	a.toLead(backend.OffsetsLog, c)
	answer := a.findCoordinator()
	require.Equal(t, kerr.CoordinatorNotAvailable.Code, answer.ErrorCode)
	require.Contains(t, *answer.ErrorMessage, "no Kafka port for clients of other nodes")
	require.Equal(t, c.id(), c.findCoordinator().NodeID, "those that have found it can use it")
	c.toLead(backend.OffsetsLog, a)
	require.Equal(t, a.id(), a.findCoordinator().NodeID)
}

func (d *testServer) findCoordinator() kmsg.FindCoordinatorResponseCoordinator {
	d.Helper()
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.Version, q.CoordinatorKeys = 4, []string{"readers"}
	c := d.raw()
	c.send(q)
	r, _ := c.receive(q)
	return r.(*kmsg.FindCoordinatorResponse).Coordinators[0]
}

// toLead lets another node lead a log, and returns when both know that it does.
func (d *testServer) toLead(log string, other *testServer) {
	d.Helper()
	d.eventually(other.node.Name()+" leads "+log, func() bool {
		// Refused, for one, while the other has not caught up.
		err := d.node.TransferLeader(d.Context(), verbs.Caller{}, log, other.node.Name())
		b, _ := other.node.Bounds(verbs.Caller{}, log)
		known, _ := d.node.KnownInfo(verbs.Caller{}, log)
		own, _ := other.node.KnownInfo(verbs.Caller{}, log)
		return err == nil && b.Leading && known.Leader == own.Leader
	})
}
