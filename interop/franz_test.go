package interop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestFranz(t *testing.T) {
	onClusters(t, func(c *cluster) {
		c.prepare("franz")
		ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
		defer cancel()
		beforeLast := c.produceByFranz("franz")
		want := expected(codecs)
		last := int64(len(want) - perCodec)

		require.Equal(c, want, c.readByFranz("franz", 0, len(want)))
		group := c.franz(kgo.ConsumerGroup("franz"), kgo.ConsumeTopics("franz"))
		require.Equal(c, want, c.poll(group, len(want)))
		require.NoError(c, group.CommitUncommittedOffsets(ctx))

		a := kadm.NewClient(c.franz())
		committed, err := a.FetchOffsets(ctx, "franz")
		require.NoError(c, err)
		require.EqualValues(c, len(want), committed["franz"][0].At)
		found, err := a.ListOffsetsAfterMilli(ctx, beforeLast, "franz")
		require.NoError(c, err)
		require.Equal(c, last, found["franz"][0].Offset)
		require.Equal(c, want[last:], c.poll(c.franz(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			"franz": {0: kgo.NewOffset().AfterMilli(beforeLast)},
		})), perCodec))

		var to kadm.Offsets
		to.Add(kadm.Offset{Topic: "franz", Partition: 0, At: 5})
		trimmed, err := a.DeleteRecords(ctx, to)
		require.NoError(c, err)
		require.NoError(c, trimmed.Error())
		require.EqualValues(c, 5, trimmed["franz"][0].LowWatermark)
		starts, err := a.ListStartOffsets(ctx, "franz")
		require.NoError(c, err)
		require.EqualValues(c, 5, starts["franz"][0].Offset)
		_, err = a.CreateTopic(ctx, 3, -1, nil, "franz-more")
		require.NoError(c, err)
		topics, err := a.ListTopics(ctx)
		require.NoError(c, err)
		require.Len(c, topics["franz-more"].Partitions, 3)
		c.checkWritten("franz", codecs)
	})
}

// A consumer that says where it is gets every record from the broker there,
// although that one only follows.
func TestAConsumerReadsFromTheFollowerThatIsNear(t *testing.T) {
	c := start(t, 3)
	c.prepare("near")
	c.produceByFranz("near")
	want := expected(codecs)
	for _, b := range c.followers("near") {
		from := &batchesFrom{}
		r := c.franz(kgo.ConsumeTopics("near"), kgo.Rack(*b.Rack), kgo.WithHooks(from))
		require.Equal(t, want, c.poll(r, len(want)))
		require.Equal(t, []int32{b.NodeID}, from.brokers())
	}
}

// followers are the brokers that hold a topic's partition 0 and do not lead it.
func (c *cluster) followers(topic string) []kadm.BrokerDetail {
	c.Helper()
	a := kadm.NewClient(c.franz())
	metadata, err := a.Metadata(c.Context(), topic)
	require.NoError(c, err)
	partition := metadata.Topics[topic].Partitions[0]
	require.NoError(c, partition.Err)
	require.Len(c, partition.Replicas, c.nodes)
	var followers []kadm.BrokerDetail
	for _, b := range metadata.Brokers {
		if b.NodeID != partition.Leader {
			followers = append(followers, b)
		}
	}
	require.Len(c, followers, c.nodes-1)
	return followers
}

// batchesFrom remembers which brokers a client's batches came from.
type batchesFrom struct {
	mu   sync.Mutex
	seen []int32
}

func (b *batchesFrom) OnFetchBatchRead(broker kgo.BrokerMetadata, _ string, _ int32, _ kgo.FetchBatchMetrics) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range b.seen {
		if id == broker.NodeID {
			return
		}
	}
	b.seen = append(b.seen, broker.NodeID)
}

func (b *batchesFrom) brokers() []int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

// franz makes a client that is closed when the test ends.
func (c *cluster) franz(options ...kgo.Opt) *kgo.Client {
	c.Helper()
	cl, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(c.bootstrap, ",")...))...)
	require.NoError(c, err)
	c.Cleanup(cl.Close)
	return cl
}

// produceByFranz writes with every codec, and returns a time in ms between the
// last codec and the ones before.
func (c *cluster) produceByFranz(log string) (beforeLast int64) {
	c.Helper()
	for i, codec := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		beforeLast = between()
		p := c.franz(kgo.DefaultProduceTopic(log), kgo.ProducerBatchCompression(codec))
		var records []*kgo.Record
		for n := range perCodec {
			records = append(records, kgo.StringRecord(fmt.Sprintf("%s-%d", codecs[i], n)))
		}
		require.NoError(c, p.ProduceSync(c.Context(), records...).FirstErr())
	}
	return beforeLast
}

// readByFranz reads partition 0 of a topic by assignment.
func (c *cluster) readByFranz(topic string, from int64, count int) []record {
	c.Helper()
	return c.poll(c.franz(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}})), count)
}

// poll reads until there are count records.
func (c *cluster) poll(cl *kgo.Client, count int) []record {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	var records []record
	for len(records) < count {
		fetches := cl.PollFetches(ctx)
		require.NoError(c, fetches.Err(), "read %d of %d", len(records), count)
		fetches.EachRecord(func(r *kgo.Record) { records = append(records, record{r.Offset, string(r.Value)}) })
	}
	return records
}
