package kafkaserver

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/topics"
)

func (d *testServer) metadata(topics ...string) *kmsg.MetadataResponse {
	d.Helper()
	q := kmsg.NewPtrMetadataRequest()
	q.Version = 9
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		q.Topics = append(q.Topics, t)
	}
	c := d.raw()
	c.send(q)
	r, _ := c.receive(q)
	return r.(*kmsg.MetadataResponse)
}

func TestATopicOfManyPartitionsIsManyLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir, Options{})
	d.create("orders", 3)
	for _, log := range []string{"orders", "orders/1", "orders/2"} {
		_, err := d.node.KnownInfo(verbs.Caller{}, log)
		require.NoError(t, err)
	}
	c := d.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p := range int32(3) {
		require.NoError(t, c.ProduceSync(d.ctx(), &kgo.Record{Topic: "orders", Partition: p, Value: []byte("a")}).FirstErr())
	}
	d.server.Stop(t.Context())
	require.NoError(t, d.node.Close(t.Context()))

	d = open(t, dir, Options{})
	topics := d.metadata().Topics
	require.Len(t, topics, 1)
	require.Len(t, topics[0].Partitions, 3)
	reader := d.client(kgo.ConsumeTopics("orders"))
	require.Len(t, d.poll(reader, 3), 3)
}

func TestALogOfAnotherProtocolIsATopicWithOnePartition(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	_, err := d.node.CreateLog(t.Context(), verbs.Caller{}, "ledger", settings.Config{Retention: time.Hour})
	require.NoError(t, err)
	topic := d.metadata("ledger").Topics[0]
	require.Len(t, topic.Partitions, 1)
	require.EqualValues(t, 1, topic.Partitions[0].Leader)

	// It can become one of several; what it is configured to be stays.
	q := kmsg.NewPtrCreatePartitionsRequest()
	one := kmsg.NewCreatePartitionsRequestTopic()
	one.Topic, one.Count = "ledger", 2
	q.Topics = append(q.Topics, one)
	require.Zero(t, request[*kmsg.CreatePartitionsResponse](d, d.client(), q).Topics[0].ErrorCode)
	require.Equal(t, kerr.InvalidPartitions.Code, request[*kmsg.CreatePartitionsResponse](d, d.client(), q).Topics[0].ErrorCode)
	require.Len(t, d.metadata("ledger").Topics[0].Partitions, 2)
	info, err := d.node.KnownInfo(verbs.Caller{}, "ledger/1")
	require.NoError(t, err)
	require.Equal(t, time.Hour, info.Config.Retention)
	require.ErrorIs(t, d.node.DeleteLog(t.Context(), verbs.Caller{}, "ledger"), &record.Refusal{Reason: record.Invalid},
		"not before its other partitions")
}

func TestNobodyCanTakeTheNameOfAPartitionOrOfTheSystem(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	invalid := &record.Refusal{Reason: record.Invalid}
	for _, name := range []string{"orders/1", "orders/", "/1", "_offsets", "__consumer_offsets"} {
		_, err := d.node.CreateLog(t.Context(), verbs.Caller{}, name, settings.Config{})
		require.ErrorIs(t, err, invalid, name)
	}
	for _, name := range []string{"orders/1", "_offsets", "", "with space", "."} {
		q := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		q.Topics = append(q.Topics, topic)
		require.NotZero(t, request[*kmsg.CreateTopicsResponse](d, d.client(), q).Topics[0].ErrorCode, name)
	}
	for _, name := range []string{"_catalog", "orders/1"} {
		require.NotZero(t, d.metadata(name).Topics[0].ErrorCode)
	}
	require.Empty(t, d.metadata().Topics)
}

func TestTopicsAreCreatedOnlyAsTheyCanBe(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.client()
	create := func(partitions int32, replicas int16, validate bool, configs ...string) kmsg.CreateTopicsResponseTopic {
		q := kmsg.NewPtrCreateTopicsRequest()
		q.ValidateOnly = validate
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "orders", partitions, replicas
		for i := 0; i < len(configs); i += 2 {
			one := kmsg.NewCreateTopicsRequestTopicConfig()
			one.Name, one.Value = configs[i], &configs[i+1]
			topic.Configs = append(topic.Configs, one)
		}
		q.Topics = append(q.Topics, topic)
		return request[*kmsg.CreateTopicsResponse](d, c, q).Topics[0]
	}
	require.Equal(t, kerr.InvalidPartitions.Code, create(0, 1, false).ErrorCode)
	require.Equal(t, kerr.InvalidPartitions.Code, create(1_001, 1, false).ErrorCode)
	require.Equal(t, kerr.InvalidReplicationFactor.Code, create(1, 3, false).ErrorCode)
	require.Equal(t, kerr.InvalidReplicationFactor.Code, create(1, 0, false).ErrorCode)
	require.Equal(t, kerr.InvalidConfig.Code, create(1, 1, false, "cleanup.policy", "squash").ErrorCode)
	require.Equal(t, kerr.InvalidConfig.Code, create(-1, -1, false, "min.insync.replicas", "2").ErrorCode, "of one replica")
	require.Equal(t, kerr.InvalidConfig.Code, create(1, 1, false, "no.such.setting", "1").ErrorCode)
	require.Equal(t, kerr.InvalidConfig.Code, create(1, 1, false, "retention.ms", "-2").ErrorCode)
	require.Empty(t, d.metadata().Topics)
	require.Zero(t, create(-1, -1, true).ErrorCode)
	require.Empty(t, d.metadata().Topics, "validated, not made")
	made := create(-1, -1, false, "retention.ms", "3600000", "retention.bytes", "1000000", "cleanup.policy", "delete", "strandline.durability", "memory")
	require.Zero(t, made.ErrorCode, made.ErrorMessage)
	require.Equal(t, kerr.TopicAlreadyExists.Code, create(1, 1, false).ErrorCode)
	info, err := d.node.KnownInfo(verbs.Caller{}, "orders")
	require.NoError(t, err)
	require.Equal(t, settings.Config{Durability: settings.Memory, Retention: time.Hour, RetentionBytes: 1_000_000, Replicas: 1, Revision: 1, Settings: map[string]string{
		"retention.ms": "3600000", "retention.bytes": "1000000", "cleanup.policy": "delete",
	}}, info.Config)
}

func TestADeletedTopicIsGoneAndItsNameFree(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	remove := func() int16 {
		q := kmsg.NewPtrDeleteTopicsRequest()
		q.Version = 5
		q.TopicNames = []string{"orders"}
		c := d.raw()
		c.send(q)
		r, _ := c.receive(q)
		return r.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode
	}
	d.create("orders", 3)
	d.appendDirectly("orders", batchOf(t, record.None, "old"))
	require.Zero(t, remove())
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, remove())
	logs, err := d.node.ListLogs(t.Context(), verbs.Caller{}, false, nil)
	require.NoError(t, err)
	require.Empty(t, logs)
	d.create("orders", 1)
	require.EqualValues(t, 0, d.appendDirectly("orders", batchOf(t, record.None, "new")))
	require.Len(t, d.metadata("orders").Topics[0].Partitions, 1)
}

func TestDeleteRecordsTrims(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	for range 5 {
		d.appendDirectly("orders", batchOf(t, record.None, "a", "b"))
	}
	trim := func(offset int64) kmsg.DeleteRecordsResponseTopicPartition {
		q := kmsg.NewPtrDeleteRecordsRequest()
		topic := kmsg.NewDeleteRecordsRequestTopic()
		topic.Topic = "orders"
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Offset = offset
		topic.Partitions = append(topic.Partitions, p)
		q.Topics = append(q.Topics, topic)
		return request[*kmsg.DeleteRecordsResponse](d, d.client(), q).Topics[0].Partitions[0]
	}
	require.EqualValues(t, 3, trim(3).LowWatermark)
	require.Equal(t, kerr.OffsetOutOfRange.Code, trim(11).ErrorCode, "never beyond the end")
	require.EqualValues(t, 3, d.listOffset("orders", topics.TimeEarliest).Offset)
	_, err := d.node.SetHold(t.Context(), verbs.Caller{}, "orders", record.Hold{Name: "backup", Offset: 6}, reading.FromOffset)
	require.NoError(t, err)
	require.Equal(t, kerr.PolicyViolation.Code, trim(-1).ErrorCode, "a hold keeps the rest")
	require.EqualValues(t, 6, trim(6).LowWatermark)
	require.NoError(t, d.node.ReleaseHold(t.Context(), verbs.Caller{}, "orders", "backup"))
	require.EqualValues(t, 10, trim(-1).LowWatermark)
}

func TestAnUnknownVersionOfApiVersionsIsAnsweredInTheOldest(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	c := d.raw()
	q := kmsg.NewPtrApiVersionsRequest()
	q.Version = 4
	frame := c.frame(q)
	frame[7] = 77
	_, err := c.Write(frame)
	require.NoError(t, err)
	old := kmsg.NewPtrApiVersionsRequest()
	r, _ := c.receive(old)
	answer := r.(*kmsg.ApiVersionsResponse)
	require.Equal(t, kerr.UnsupportedVersion.Code, answer.ErrorCode)
	served := map[int16][2]int16{}
	for _, k := range answer.ApiKeys {
		served[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	require.Equal(t, [2]int16{0, 13}, served[produceKey])
	require.Equal(t, [2]int16{4, 18}, served[fetchKey])
	require.Len(t, served, len(apis))

	q.Version = 3
	c.send(q)
	r, _ = c.receive(q)
	require.Zero(t, r.(*kmsg.ApiVersionsResponse).ErrorCode)
	require.Len(t, r.(*kmsg.ApiVersionsResponse).ApiKeys, len(apis))
}

func TestTheClusterAndItsDisksAreDescribed(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 2)
	d.appendDirectly("orders", batchOf(t, record.None, "a"))
	cluster := request[*kmsg.DescribeClusterResponse](d, d.client(), kmsg.NewPtrDescribeClusterRequest())
	require.Equal(t, d.node.ClusterID(), cluster.ClusterID)
	require.Len(t, cluster.Brokers, 1)
	require.Equal(t, "127.5.0.1", cluster.Brokers[0].Host)
	q := kmsg.NewPtrDescribeLogDirsRequest()
	q.Version = 4
	c := d.raw()
	c.send(q)
	r, _ := c.receive(q)
	dirs := r.(*kmsg.DescribeLogDirsResponse).Dirs
	require.Len(t, dirs, 1)
	require.Len(t, dirs[0].Topics[0].Partitions, 2)
	require.Positive(t, dirs[0].Topics[0].Partitions[0].Size)
	require.Positive(t, dirs[0].TotalBytes)
}

func TestANodeIsShownAtTheAddressThatItAdvertises(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), Options{Advertise: "kafka.example:19092"})
	brokers := d.metadata().Brokers
	require.Len(t, brokers, 1)
	require.Equal(t, "kafka.example", brokers[0].Host)
	require.EqualValues(t, 19092, brokers[0].Port)
}

func TestCommittedOffsetsAreShownAsTheInternalTopicThatToolsExpect(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	require.Len(t, d.metadata().Topics, 1)
	d.appendDirectly("orders", batchOf(t, record.None, "a"))
	g := d.client(kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	d.poll(g, 1)
	require.NoError(t, g.CommitUncommittedOffsets(t.Context()))
	shown := d.metadata().Topics
	require.Len(t, shown, 2)
	offsets := shown[1]
	require.Equal(t, backend.OffsetsTopic, *offsets.Topic)
	require.True(t, offsets.IsInternal)
	require.Len(t, offsets.Partitions, 1)

	// Its records are not Kafka's, so there are none, and nobody waits for a time-out.
	for _, at := range []int64{topics.TimeEarliest, topics.TimeLatest} {
		listed := d.listOffset(backend.OffsetsTopic, at)
		require.Zero(t, listed.ErrorCode)
		require.Zero(t, listed.Offset)
	}
	fetched := d.raw().fetch(fetchRequest(11, 10, 1, 1<<20, 0, backend.OffsetsTopic)).Topics[0].Partitions[0]
	require.Zero(t, fetched.ErrorCode)
	require.Zero(t, fetched.HighWatermark)
	require.Zero(t, fetched.LogStartOffset)
	require.Equal(t, kerr.OffsetOutOfRange.Code, d.raw().fetch(fetchRequest(11, 10, 1, 1<<20, 1, backend.OffsetsTopic)).Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, kerr.InvalidTopicException.Code, d.raw().produce(backend.OffsetsTopic, acksAll, batchOf(t, record.None, "a")).ErrorCode)
	q := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, backend.OffsetsTopic
	q.Resources = append(q.Resources, resource)
	r := request[*kmsg.DescribeConfigsResponse](d, d.client(), q)
	require.Zero(t, r.Resources[0].ErrorCode)
	require.NotEmpty(t, r.Resources[0].Configs)
}

func TestANodeIsShownToItsOwnClientsWhereItIsShownToAllOthers(t *testing.T) {
	t.Parallel()
	all := openCluster(t)
	shown := all["b"].metadata().Brokers
	// a also listens where only some of its clients find it.
	other := all["a"].over(guard.New(all["a"].node, guard.Options{}))
	require.NotEqual(t, other.address, all["a"].address)
	require.Equal(t, shown, other.metadata().Brokers)
}

// counting counts how often a topic is looked up.
type counting struct {
	backend.Node
	topics atomic.Int32
}

func (n *counting) Topic(ctx context.Context, c verbs.Caller, name string) (verbs.Topic, error) {
	n.topics.Add(1)
	return n.Node.Topic(ctx, c, name)
}

func TestACommitOfManyPartitionsLooksTheirTopicUpOnce(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 50)
	n := &counting{Node: guard.New(d.node, guard.Options{})}
	c := d.over(n).raw()
	c.coordinated()
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.Generation = 7, "billing", -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "orders"
	for i := range int32(51) {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition = i
		topic.Partitions = append(topic.Partitions, p)
	}
	q.Topics = append(q.Topics, topic)
	c.send(q)
	r, _ := c.receive(q)
	for i, p := range r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions {
		require.Equal(t, i == 50, p.ErrorCode == kerr.UnknownTopicOrPartition.Code)
	}
	require.EqualValues(t, 1, n.topics.Load())
}

// withID describes one topic, found by its name or by its id.
func (d *testServer) withID(name *string, id [16]byte) kmsg.MetadataResponseTopic {
	d.Helper()
	q := kmsg.NewPtrMetadataRequest()
	q.Version = 12
	t := kmsg.NewMetadataRequestTopic()
	t.Topic, t.TopicID = name, id
	q.Topics = append(q.Topics, t)
	c := d.raw()
	c.send(q)
	r, _ := c.receive(q)
	return r.(*kmsg.MetadataResponse).Topics[0]
}

// Clients that have seen a leader epoch believe no lower one of the same topic,
// and wait for ever: the id shows them that it is another topic.
func TestATopicThatIsMadeAnewHasAnotherId(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 2)
	before := d.withID(new("orders"), [16]byte{})
	require.NotZero(t, before.TopicID)
	require.Zero(t, before.ErrorCode)
	require.Equal(t, "orders", *d.withID(nil, before.TopicID).Topic)
	d.create("other", 1)
	require.NotEqual(t, before.TopicID, d.withID(new("other"), [16]byte{}).TopicID)

	q := kmsg.NewPtrDeleteTopicsRequest()
	q.Version = 6
	byID := kmsg.NewDeleteTopicsRequestTopic()
	byID.TopicID = before.TopicID
	q.Topics = append(q.Topics, byID)
	c := d.raw()
	for _, code := range []int16{0, kerr.UnknownTopicID.Code} {
		c.send(q)
		r, _ := c.receive(q)
		require.Equal(t, code, r.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode)
	}
	require.Equal(t, kerr.UnknownTopicID.Code, d.withID(nil, before.TopicID).ErrorCode)

	d.create("orders", 2)
	after := d.withID(new("orders"), [16]byte{})
	require.NotEqual(t, before.TopicID, after.TopicID)
	d.appendDirectly("orders", batchOf(t, record.None, "new"))
}
