package kafkaserver

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	nodesettings "strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/settings"
)

// alter changes one setting of topic "orders".
func (d *testServer) alter(name string, value *string, op kmsg.IncrementalAlterConfigOp) int16 {
	d.Helper()
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Version = 1
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "orders"
	one := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	one.Name, one.Value, one.Op = name, value, op
	r.Configs = append(r.Configs, one)
	q.Resources = append(q.Resources, r)
	c := d.raw()
	c.send(q)
	answer, _ := c.receive(q)
	return answer.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
}

// settingsOf are what is shown of topic "orders": those with names, or (none) all.
func (d *testServer) settingsOf(names ...string) map[string]string {
	d.Helper()
	q := kmsg.NewPtrDescribeConfigsRequest()
	q.Version = 4
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, "orders", names
	q.Resources = append(q.Resources, r)
	c := d.raw()
	c.send(q)
	answer, _ := c.receive(q)
	shown := map[string]string{}
	for _, c := range answer.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		shown[c.Name] = *c.Value
	}
	return shown
}

const setTo = kmsg.IncrementalAlterConfigOpSet

func TestSettingsAreShownAndChanged(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 2)
	c := d.client(kgo.ProducerBatchCompression(kgo.NoCompression()))
	config := func() nodesettings.Config {
		info, err := d.node.KnownInfo(verbs.Caller{}, "orders/1")
		require.NoError(t, err)
		return info.Config
	}
	require.Zero(t, d.alter("retention.ms", new("60000"), setTo))
	require.Equal(t, map[string]string{"retention.ms": "60000"}, d.settingsOf("retention.ms"))
	require.Equal(t, time.Minute, config().Retention, "in every partition")
	require.Zero(t, d.alter("retention.ms", nil, kmsg.IncrementalAlterConfigOpDelete))
	require.Equal(t, "-1", d.settingsOf("retention.ms")["retention.ms"])
	require.Zero(t, config().Retention)
	require.Zero(t, d.alter("max.message.bytes", new("1000"), setTo))
	require.Zero(t, d.alter("retention.ms", new("60000"), setTo))
	require.Equal(t, "1000", d.settingsOf("max.message.bytes")["max.message.bytes"])
	err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: make([]byte, 2000)}).FirstErr()
	require.ErrorIs(t, err, kerr.MessageTooLarge)
	require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: make([]byte, 500)}).FirstErr())
	require.Equal(t, kerr.InvalidConfig.Code, d.alter("max.message.bytes", new("17000000"), setTo), "more than there can be")
	require.Zero(t, d.alter("max.message.bytes", nil, kmsg.IncrementalAlterConfigOpDelete))
	require.Equal(t, "16842752", d.settingsOf("max.message.bytes")["max.message.bytes"])
	require.Equal(t, kerr.InvalidConfig.Code, d.alter("strandline.durability", new("memory"), setTo))
	require.Equal(t, kerr.InvalidConfig.Code, d.alter("retention.ms", new("1"), kmsg.IncrementalAlterConfigOpAppend), "no list")

	// What another port has set is shown, and kept when something else is changed.
	for _, log := range []string{"orders", "orders/1"} {
		_, err = d.node.ConfigureLog(t.Context(), verbs.Caller{}, log, nodesettings.Config{Retention: time.Hour})
		require.NoError(t, err)
	}
	require.Equal(t, "3600000", d.settingsOf("retention.ms")["retention.ms"])
	require.Zero(t, d.alter("retention.bytes", new("1000"), setTo))
	require.Equal(t, time.Hour, config().Retention)
	require.EqualValues(t, 1000, config().RetentionBytes)

	// AlterConfigs replaces all.
	q := kmsg.NewPtrAlterConfigsRequest()
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "orders"
	one := kmsg.NewAlterConfigsRequestResourceConfig()
	one.Name, one.Value = "max.message.bytes", new("5000")
	r.Configs = append(r.Configs, one)
	q.Resources = append(q.Resources, r)
	require.Zero(t, request[*kmsg.AlterConfigsResponse](d, c, q).Resources[0].ErrorCode)
	require.Equal(t, nodesettings.Config{
		MaxBatchBytes: 5000, Replicas: 1, Topic: "orders", Partition: 1, Settings: map[string]string{"max.message.bytes": "5000"},
		Revision: config().Revision,
	}, config())
}

// Settings that tools give their topics, and compare with what is shown.
func TestSettingsOfOthersToolsAreKeptAsTheyWereSet(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	for name, value := range map[string]string{
		"retention.ms":           "9223372036854775807", // Debezium
		"segment.bytes":          "52428800",            // Streams
		"min.insync.replicas":    "1",
		"cleanup.policy":         "compact", // Connect, MirrorMaker, Schema Registry
		"compression.type":       "zstd",
		"message.timestamp.type": "LogAppendTime",
		"segment.ms":             "3600000",
	} {
		require.Zero(t, d.alter(name, &value, setTo), name)
		require.Equal(t, value, d.settingsOf()[name], name)
	}
	info, err := d.node.KnownInfo(verbs.Caller{}, "orders")
	require.NoError(t, err)
	require.Zero(t, info.Config.Retention, "for ever")
	require.Equal(t, kerr.InvalidConfig.Code, d.alter("min.insync.replicas", new("2"), setTo), "an append waits for one")
	require.Equal(t, kerr.InvalidConfig.Code, d.alter("segment.bytes", new("much"), setTo))
	require.Equal(t, kerr.InvalidConfig.Code, d.alter("remote.storage.enable", new("true"), setTo))

	// Retention does not touch a topic that is only compacted, as in Kafka.
	require.Zero(t, d.alter("retention.ms", new("5000"), setTo))
	info, err = d.node.KnownInfo(verbs.Caller{}, "orders")
	require.NoError(t, err)
	require.Zero(t, info.Config.Retention)
	require.Zero(t, d.alter("cleanup.policy", new("delete"), kmsg.IncrementalAlterConfigOpAppend))
	require.Equal(t, "compact,delete", d.settingsOf()["cleanup.policy"])
	info, err = d.node.KnownInfo(verbs.Caller{}, "orders")
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, info.Config.Retention)
	require.Zero(t, d.alter("cleanup.policy", new("compact"), kmsg.IncrementalAlterConfigOpSubtract))
	require.Equal(t, "delete", d.settingsOf()["cleanup.policy"])
}

// MirrorMaker sets in one request what differs from Kafka's defaults and deletes all else, by
// the names of the Kafka that it mirrors from.
func TestASettingOfKafkaIsTakenAtItsDefaultAndDeletedWhereItIsNotSet(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	const remove = kmsg.IncrementalAlterConfigOpDelete
	for name, value := range map[string]string{
		"follower.replication.throttled.replicas": "",
		"leader.replication.throttled.replicas":   "",
		"local.retention.bytes":                   "-2",
		"local.retention.ms":                      "-2",
		"message.timestamp.after.max.ms":          "3600000",
		"message.timestamp.before.max.ms":         "9223372036854775807",
		"remote.log.copy.disable":                 "false",
		"remote.log.delete.on.disable":            "false",
		"remote.storage.enable":                   "false",
	} {
		require.Zero(t, d.alter(name, nil, remove), name)
		require.Zero(t, d.alter(name, &value, setTo), name)
		require.Equal(t, value, d.settingsOf(name)[name], name)
		require.Equal(t, kerr.InvalidConfig.Code, d.alter(name, new("17"), setTo), name)
		require.Zero(t, d.alter(name, nil, remove), name)
	}
	require.Zero(t, d.alter("retention.ms", nil, remove))
	require.Zero(t, d.alter("of.a.later.kafka", nil, remove), "nothing to delete")
	require.Equal(t, kerr.InvalidConfig.Code, d.alter("of.a.later.kafka", new("1"), setTo))
}

// A record without a key can never be replaced by another, so Kafka takes none.
func TestACompactedTopicRefusesRecordsWithoutAKey(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	batch := func(codec record.Codec, records ...record.Record) []byte {
		var b record.Builder
		b.Reset(nil)
		for _, r := range records {
			require.NoError(t, b.Add(r))
		}
		batch, err := b.Finish(codec)
		require.NoError(t, err)
		return batch
	}
	keyed, empty, bare := record.Record{Key: []byte("k")}, record.Record{Key: []byte{}, Value: []byte("v")}, record.Record{Value: []byte("v")}
	require.Zero(t, d.raw().produce("orders", acksAll, batch(record.None, bare)).ErrorCode)
	for _, policy := range []string{"compact", "delete,compact"} {
		require.Zero(t, d.alter("cleanup.policy", &policy, setTo))
		for _, codec := range []record.Codec{record.None, record.Zstd} {
			p := d.raw().produce("orders", acksAll, batch(codec, keyed, bare))
			require.Equal(t, kerr.InvalidRecord.Code, p.ErrorCode, codec)
			require.Contains(t, *p.ErrorMessage, "no key")
			require.Zero(t, d.raw().produce("orders", acksAll, batch(codec, keyed, empty)).ErrorCode, codec)
		}
	}
	require.Zero(t, d.alter("cleanup.policy", new("delete"), setTo))
	require.Zero(t, d.raw().produce("orders", acksAll, batch(record.Zstd, bare)).ErrorCode)
	d.eventually("nothing is held", func() bool { return d.server.requests.Used() == 0 })
}

func TestATopicMayBeginWithAnUnderscoreAndHave249Letters(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	for _, name := range []string{"_schemas", "__connect", strings.Repeat("a", 249)} {
		d.create(name, 2)
		require.Zero(t, d.raw().produce(name, acksAll, batchOf(t, record.None, "a")).ErrorCode, name)
	}
	require.Len(t, d.metadata().Topics, 3)
	for _, name := range []string{strings.Repeat("a", 250), "_offsets", "_catalog", "_strandline_x", backend.OffsetsTopic, "a/b", "..", "ä"} {
		q := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		q.Topics = append(q.Topics, topic)
		r := request[*kmsg.CreateTopicsResponse](d, d.client(), q)
		require.NotZero(t, r.Topics[0].ErrorCode, name)
	}
}

func TestEverySettingIsInTheDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/kafka.md")
	require.NoError(t, err)
	for _, s := range settings.All {
		require.Contains(t, string(text), fmt.Sprintf("`%s`", s.Name))
		value := s.Show(&nodesettings.Config{Replicas: 1})
		if s.Check != nil && s.Name != "retention.bytes" && s.Name != "retention.ms" {
			require.NoError(t, s.Check(value), "%s: its default is no value", s.Name)
		}
	}
}

func TestALogWithAppendTimeHasTheTimeAtWhichItTookARecord(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	require.Zero(t, d.alter("message.timestamp.type", new("LogAppendTime"), setTo))
	var b record.Builder
	b.Reset(nil)
	require.NoError(t, b.Add(record.Record{Timestamp: 1000, Value: []byte("a")}))
	batch, err := b.Finish(record.Zstd)
	require.NoError(t, err)
	before := time.Now().UnixMilli()
	p := d.raw().produce("orders", acksAll, batch)
	require.Zero(t, p.ErrorCode)
	require.GreaterOrEqual(t, p.LogAppendTime, before)
	c := d.client(kgo.ConsumeTopics("orders"))
	r := d.poll(c, 1)[0]
	require.Equal(t, p.LogAppendTime, r.Timestamp.UnixMilli())
	require.EqualValues(t, 1, r.Attrs.TimestampType())
	require.EqualValues(t, 0, d.listOffset("orders", before).Offset)
	require.EqualValues(t, -1, d.listOffset("orders", p.LogAppendTime+1).Offset)
}

// With compression.type, batches are stored as the topic wants them, whatever their
// producer did; an idempotent producer's stay its own.
func TestATopicMayWantItsBatchesCompressedInOneWay(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	for i, one := range []struct {
		setting string
		codec   kgo.CompressionCodec
		stored  record.Codec
	}{
		{"zstd", kgo.NoCompression(), record.Zstd},
		{"lz4", kgo.SnappyCompression(), record.LZ4},
		{"uncompressed", kgo.GzipCompression(), record.None},
		{"snappy", kgo.SnappyCompression(), record.Snappy},
		{"producer", kgo.ZstdCompression(), record.Zstd},
	} {
		require.Zero(t, d.alter("compression.type", new(one.setting), setTo))
		before := len(d.stored("orders"))
		c := d.client(kgo.ProducerBatchCompression(one.codec))
		value := strings.Repeat(one.setting, 100)
		require.NoError(t, c.ProduceSync(d.ctx(), &kgo.Record{Topic: "orders", Value: []byte(value), Headers: []kgo.RecordHeader{{Key: "k"}}}).FirstErr())
		batch, rest, err := record.Split(d.stored("orders")[before:])
		require.NoError(t, err)
		require.Empty(t, rest)
		require.NoError(t, batch.Check())
		require.Equal(t, one.stored, batch.Compression(), one.setting)
		require.Positive(t, batch.ProducerID())
		require.EqualValues(t, i, batch.BaseOffset())
		for r, err := range batch.Records {
			require.NoError(t, err)
			require.Equal(t, value, string(r.Value))
			require.Equal(t, "k", r.Headers[0].Key)
		}
	}
	require.Len(t, d.poll(d.client(kgo.ConsumeTopics("orders")), 5), 5)
	d.eventually("nothing is held", func() bool { return d.server.requests.Used() == 0 })
}

// Two clients that change different settings at once both have them.
func TestChangesOfSettingsAtOnceDoNotUndoEachOther(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 3)
	for round := range 10 {
		var changing sync.WaitGroup
		value := strconv.Itoa(100_000 + round)
		for _, name := range []string{"retention.ms", "retention.bytes"} {
			changing.Go(func() {
				if code := d.alter(name, &value, kmsg.IncrementalAlterConfigOpSet); code != 0 {
					t.Errorf("%s in round %d: %v", name, round, kerr.ErrorForCode(code))
				}
			})
		}
		changing.Wait()
		require.Equal(t, map[string]string{"retention.ms": value, "retention.bytes": value}, d.settingsOf("retention.ms", "retention.bytes"))
	}
}
