package kafkaserver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/topics"
)

// ask sends one request at its version and returns the answer.
func ask[R any](d *testServer, q kmsg.Request) R {
	d.Helper()
	c := d.raw()
	c.send(q)
	r, _ := c.receive(q)
	return any(r).(R)
}

func TestATopicIsCreatedWhenAClientAsksForItWhereThatIsWanted(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), Options{AutoCreate: true})
	c := d.client(kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("orders"))
	require.NoError(t, c.ProduceSync(d.ctx(), kgo.StringRecord("a")).FirstErr())
	require.Len(t, d.metadata("orders").Topics[0].Partitions, 1)

	q := kmsg.NewPtrMetadataRequest()
	q.Version = 9
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = new("other")
	q.Topics = append(q.Topics, topic)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, ask[*kmsg.MetadataResponse](d, q).Topics[0].ErrorCode, "the client forbids it")
	q.AllowAutoTopicCreation, topic.Topic = true, new("_offsets")
	q.Topics[0] = topic
	require.NotZero(t, ask[*kmsg.MetadataResponse](d, q).Topics[0].ErrorCode)

	d = openNew(t)
	q.Topics[0].Topic = new("orders")
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, ask[*kmsg.MetadataResponse](d, q).Topics[0].ErrorCode, "off, unless asked for")
}

func TestATopicThatIsCreatedByItselfHasAsManyPartitionsAsTheNodeIsSetTo(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), Options{AutoCreate: true, AutoPartitions: 4})
	c := d.client(kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("orders"))
	require.NoError(t, c.ProduceSync(d.ctx(), kgo.StringRecord("a")).FirstErr())
	require.Len(t, d.metadata("orders").Topics[0].Partitions, 4)
	q := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeBroker, "1", []string{"num.partitions"}
	q.Resources = append(q.Resources, r)
	require.Equal(t, "4", *ask[*kmsg.DescribeConfigsResponse](d, q).Resources[0].Configs[0].Value)
}

func TestReplicasAreWhereTheyAreAssignedTo(t *testing.T) {
	t.Parallel()
	all := openCluster(t)
	a := all["a"]
	create := func(name string, assigned ...[]int32) kmsg.CreateTopicsResponseTopic {
		q := kmsg.NewPtrCreateTopicsRequest()
		q.Version, q.TimeoutMillis = 7, 10_000
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
		for i, on := range assigned {
			one := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			one.Partition, one.Replicas = int32(i), on
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, one)
		}
		q.Topics = append(q.Topics, topic)
		return ask[*kmsg.CreateTopicsResponse](a, q).Topics[0]
	}
	ids := []int32{all["a"].id(), all["b"].id(), all["c"].id()}
	made := create("orders", []int32{ids[1], ids[2]}, []int32{ids[2], ids[0]})
	require.Zero(t, made.ErrorCode, made.ErrorMessage)
	require.EqualValues(t, 2, made.NumPartitions)
	require.EqualValues(t, 2, made.ReplicationFactor)
	shown := a.metadata("orders").Topics[0].Partitions
	require.Equal(t, []int32{ids[1], ids[2]}, shown[0].Replicas)
	require.Equal(t, []int32{ids[2], ids[0]}, shown[1].Replicas)
	for name, assigned := range map[string][][]int32{
		"unknown node": {{99}}, "twice the same": {{ids[0], ids[0]}}, "of different number": {{ids[0]}, {ids[0], ids[1]}}, "none": {{}},
	} {
		require.Equal(t, kerr.InvalidReplicaAssignment.Code, create("other", assigned...).ErrorCode, name)
	}

	more := kmsg.NewPtrCreatePartitionsRequest()
	more.Version = 3
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = "orders", 3
	topic.Assignment = append(topic.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: []int32{ids[0], ids[1]}})
	more.Topics = append(more.Topics, topic)
	require.Zero(t, ask[*kmsg.CreatePartitionsResponse](a, more).Topics[0].ErrorCode)
	require.Equal(t, []int32{ids[0], ids[1]}, a.metadata("orders").Topics[0].Partitions[2].Replicas)
}

func TestThePreferredLeaderIsElectedByAHandOver(t *testing.T) {
	t.Parallel()
	all := openCluster(t)
	a := all["a"]
	a.createReplicated("orders", 1, 3)
	leader, followers := all.leader("orders", 3)
	first := a.metadata("orders").Topics[0].Partitions[0].Replicas[0]
	if leader.id() == first {
		leader.toLead("orders", followers[0])
		leader = followers[0]
	}
	elect := func(kind int8) kmsg.ElectLeadersResponseTopicPartition {
		q := kmsg.NewPtrElectLeadersRequest()
		q.Version, q.ElectionType = 2, kind
		topic := kmsg.NewElectLeadersRequestTopic()
		topic.Topic, topic.Partitions = "orders", []int32{0}
		q.Topics = append(q.Topics, topic)
		return ask[*kmsg.ElectLeadersResponse](leader, q).Topics[0].Partitions[0]
	}
	require.Equal(t, kerr.ElectionNotNeeded.Code, elect(topics.ElectUnclean).ErrorCode)
	leader.eventually("it is elected", func() bool { return elect(topics.ElectPreferred).ErrorCode == 0 })
	leader.eventually("it knows so", func() bool { return leader.metadata("orders").Topics[0].Partitions[0].Leader == first })
	require.Equal(t, kerr.ElectionNotNeeded.Code, elect(topics.ElectPreferred).ErrorCode)
}

func TestTheQuorumAndTheProducersAreDescribed(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	q := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	q.Topics = append(q.Topics, topic)
	described := ask[*kmsg.DescribeQuorumResponse](d, q).Topics[0].Partitions[0]
	require.Zero(t, described.ErrorCode)
	require.Equal(t, d.id(), described.LeaderID)
	require.Len(t, described.CurrentVoters, 1)

	c := d.raw()
	batch := batchOf(t, record.None, "a", "b")
	require.Zero(t, c.produce("orders", acksAll, sequenced(batch, 7, 2, 0)).ErrorCode)
	p := kmsg.NewPtrDescribeProducersRequest()
	asked := kmsg.NewDescribeProducersRequestTopic()
	asked.Topic, asked.Partitions = "orders", []int32{0, 1}
	p.Topics = append(p.Topics, asked)
	partitions := ask[*kmsg.DescribeProducersResponse](d, p).Topics[0].Partitions
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, partitions[1].ErrorCode)
	require.Len(t, partitions[0].ActiveProducers, 1)
	found := partitions[0].ActiveProducers[0]
	require.EqualValues(t, 7, found.ProducerID)
	require.EqualValues(t, 2, found.ProducerEpoch)
	require.EqualValues(t, 1, found.LastSequence)
}

// Tools that name a broker ask it about every partition that it holds.
func TestEveryReplicaDescribesTheProducersOfAPartition(t *testing.T) {
	t.Parallel()
	all := openCluster(t)
	all["a"].createReplicated("orders", 1, 3)
	leader, _ := all.leader("orders", 3)
	require.Zero(t, leader.raw().produce("orders", acksAll, sequenced(batchOf(t, record.None, "a"), 7, 2, 0)).ErrorCode)
	q := kmsg.NewPtrDescribeProducersRequest()
	asked := kmsg.NewDescribeProducersRequestTopic()
	asked.Topic, asked.Partitions = "orders", []int32{0}
	q.Topics = append(q.Topics, asked)
	for _, d := range all {
		d.eventually(d.node.Name()+" describes the producer", func() bool {
			p := ask[*kmsg.DescribeProducersResponse](d, q).Topics[0].Partitions[0]
			require.Zero(t, p.ErrorCode)
			return len(p.ActiveProducers) == 1 && p.ActiveProducers[0].ProducerID == 7
		})
	}
}

// Tools ask about every topic that Metadata shows, and begin again where one is not known.
func TestTheInternalTopicIsKnownToAllRequestsThatToolsMakeOfIt(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	c := d.raw()
	c.coordinated()
	require.Zero(t, c.commit("tool", -1, "orders", 0))

	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Version = 2
	topic := kmsg.NewElectLeadersRequestTopic()
	topic.Topic, topic.Partitions = backend.OffsetsTopic, []int32{0}
	elect.Topics = append(elect.Topics, topic)
	require.Equal(t, kerr.ElectionNotNeeded.Code, ask[*kmsg.ElectLeadersResponse](d, elect).Topics[0].Partitions[0].ErrorCode)
	elect.Topics = nil
	require.Len(t, ask[*kmsg.ElectLeadersResponse](d, elect).Topics, 2, "of all partitions")

	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Version = 4
	held := ask[*kmsg.DescribeLogDirsResponse](d, dirs).Dirs[0].Topics
	require.Len(t, held, 2)
	require.Equal(t, backend.OffsetsTopic, held[1].Topic)
	require.Len(t, held[1].Partitions, 1)

	producers := kmsg.NewPtrDescribeProducersRequest()
	asked := kmsg.NewDescribeProducersRequestTopic()
	asked.Topic, asked.Partitions = backend.OffsetsTopic, []int32{0}
	producers.Topics = append(producers.Topics, asked)
	p := ask[*kmsg.DescribeProducersResponse](d, producers).Topics[0].Partitions[0]
	require.Zero(t, p.ErrorCode)
	require.Empty(t, p.ActiveProducers)
}

func TestABrokerShowsWhatItIsSetTo(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	q := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
	q.Resources = append(q.Resources, r)
	shown := map[string]string{}
	for _, c := range ask[*kmsg.DescribeConfigsResponse](d, q).Resources[0].Configs {
		require.True(t, c.ReadOnly)
		shown[c.Name] = *c.Value
	}
	require.Equal(t, "false", shown["auto.create.topics.enable"])
	require.Equal(t, "1", shown["default.replication.factor"])
	require.Equal(t, "10080", shown["offsets.retention.minutes"])
	q.Resources[0].ResourceName = "2"
	require.Equal(t, kerr.InvalidRequest.Code, ask[*kmsg.DescribeConfigsResponse](d, q).Resources[0].ErrorCode)
}

func TestOffsetsOfTopicsThatNobodyReadsCanBeDeleted(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	d.create("old", 1)
	d.fill(1, 1)
	member := d.member("billing")
	d.poll(member, 1)
	require.NoError(t, member.CommitUncommittedOffsets(d.ctx()))
	c := d.raw()
	remove := func(group, topic string) (int16, int16) {
		q := kmsg.NewPtrOffsetDeleteRequest()
		q.Group = group
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = topic
		t.Partitions = append(t.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
		q.Topics = append(q.Topics, t)
		c.send(q)
		r, _ := c.receive(q)
		deleted := r.(*kmsg.OffsetDeleteResponse)
		if deleted.ErrorCode != 0 {
			return deleted.ErrorCode, 0
		}
		return 0, deleted.Topics[0].Partitions[0].ErrorCode
	}
	whole, one := remove("billing", "orders")
	require.Zero(t, whole)
	require.Equal(t, kerr.GroupSubscribedToTopic.Code, one)
	whole, _ = remove("nobody", "orders")
	require.Equal(t, kerr.GroupIDNotFound.Code, whole)

	require.Zero(t, c.commit("tool", -1, "orders", 1))
	require.Zero(t, c.commit("tool", -1, "old", 1))
	whole, one = remove("tool", "old")
	require.Zero(t, whole)
	require.Zero(t, one)
	offset, _ := c.committed(7, "tool", "old")
	require.EqualValues(t, -1, offset)
	offset, _ = c.committed(7, "tool", "orders")
	require.EqualValues(t, 1, offset)

	list := kmsg.NewPtrListGroupsRequest()
	list.Version, list.TypesFilter = 5, []string{"Classic"}
	groups := ask[*kmsg.ListGroupsResponse](d, list).Groups
	require.Len(t, groups, 2)
	require.Equal(t, "classic", groups[0].GroupType)
	list.TypesFilter = []string{"consumer"}
	require.Empty(t, ask[*kmsg.ListGroupsResponse](d, list).Groups)
}

func TestTheRecordWithTheLatestTimeIsFound(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	require.EqualValues(t, -1, d.listOffset("orders", topics.TimeNewest).Offset)
	now := time.Now().UnixMilli()
	for _, at := range []int64{now, now + 5000, now + 5000, now + 1000} {
		var b record.Builder
		b.Reset(nil)
		require.NoError(t, b.Add(record.Record{Timestamp: at, Value: []byte("a")}))
		batch, err := b.Finish(record.None)
		require.NoError(t, err)
		d.appendDirectly("orders", batch)
	}
	found := d.listOffset("orders", topics.TimeNewest)
	require.EqualValues(t, 1, found.Offset)
	require.Equal(t, now+5000, found.Timestamp)
	_, _, err := d.node.Trim(context.Background(), verbs.Caller{}, "orders", 2, false)
	require.NoError(t, err)
	require.EqualValues(t, 2, d.listOffset("orders", topics.TimeEarliestLocal).Offset)
	require.EqualValues(t, 2, d.listOffset("orders", topics.TimeNewest).Offset)
}

func TestTheRecordWithTheLatestTimeIsFoundHoweverFarBack(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	now := time.Now().UnixMilli()
	large := string(make([]byte, 1<<20))
	add := func(unixMs int64, value string) {
		var b record.Builder
		b.Reset(nil)
		require.NoError(t, b.Add(record.Record{Timestamp: unixMs, Value: []byte(value)}))
		batch, err := b.Finish(record.None)
		require.NoError(t, err)
		d.appendDirectly("orders", batch)
	}
	add(now+5000, "a")
	for range 20 {
		add(now, large)
	}
	require.EqualValues(t, 0, d.listOffset("orders", topics.TimeNewest).Offset)
	add(now+6000, "b")
	require.EqualValues(t, 21, d.listOffset("orders", topics.TimeNewest).Offset)
}
