package gather

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/workload"
	"strandline.dev/client"
	"strandline.dev/embed"
)

// broker is a Strandline node, whose Kafka port is used as a Kafka, with the log
// "orders".
func broker(t *testing.T, ctx context.Context) string {
	t.Helper()
	node, err := embed.Open(ctx, t.TempDir(), embed.WithKafka("127.0.0.1:0"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Close()) })
	c, err := node.Client()
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Admin().CreateLog(ctx, "orders", client.LogConfig{})
	require.NoError(t, err)
	return node.Nodes()[0].Kafka
}

func connect(t *testing.T, address string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(options, kgo.SeedBrokers(address), kgo.DefaultProduceTopic("orders"))...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestEveryProducerBehindTheProxyGetsTheOffsetOfItsRecord(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
		defer cancel()
		upstream := broker(t, ctx)
		proxy, err := Listen("127.0.0.1:0", upstream)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, proxy.Close()) })

		const producers, each = 16, 50
		var (
			mu       sync.Mutex
			expected = map[int64]string{}
			running  sync.WaitGroup
		)
		for i := range producers {
			c := connect(t, proxy.Address(), kgo.DisableIdempotentWrite())
			running.Go(func() {
				for n := range each {
					value := fmt.Sprintf("%d: %d", i, n)
					record, err := c.ProduceSync(ctx, kgo.StringRecord(value)).First()
					if err != nil {
						t.Errorf("%s: %v", value, err)
						return
					}
					mu.Lock()
					expected[record.Offset] = value
					mu.Unlock()
				}
			})
		}
		running.Wait()
		require.Len(t, expected, producers*each, "no offset is given twice")

		reader := connect(t, upstream, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().AtStart()}}))
		stored := map[int64]string{}
		for len(stored) < len(expected) {
			fetches := reader.PollFetches(ctx)
			require.NoError(t, fetches.Err())
			fetches.EachRecord(func(r *kgo.Record) { stored[r.Offset] = string(r.Value) })
		}
		require.Equal(t, expected, stored)
	})
}

func TestWhatWaitsForARequestLeavesInTheNextOne(t *testing.T) {
	parts := make([]*part, 5)
	for i := range parts {
		parts[i] = partOf(t, encode(t, 1, "value"))
	}
	parts[3].records = slices.Grow(parts[3].records, mostGathered)[:mostGathered]
	l := lane{waiting: parts, sending: true}
	require.Len(t, l.next(), 3, "the fourth would be too much")
	require.Len(t, l.next(), 1, "and leaves alone")
	require.Len(t, l.next(), 1)
	require.Nil(t, l.next())
	require.False(t, l.sending)
}

// A benchmark that found the topic of the one before would measure with the durability of that.
func TestTheTopicOfABenchmarkBehindTheProxyIsAsItWasAskedForAndGoesWithIt(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
		defer cancel()
		proxy, err := Listen("127.0.0.1:0", broker(t, ctx))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, proxy.Close()) })
		system, err := driver.Open(driver.Address{Scheme: driver.Kafka, Nodes: []string{proxy.Address()}, Client: driver.ClientFranz}, driver.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, system.Close()) })

		for stored, expected := range map[workload.Durability]string{workload.Synced: "fsync, 1 of 1", workload.Unsynced: "memory, no disk, 1 of 1"} {
			require.NoError(t, system.Create(ctx, "appends", workload.LogConfig{Durability: stored}))
			target, err := system.Open(ctx, "appends")
			require.NoError(t, err)
			require.Equal(t, expected, target.Durability())
			require.NoError(t, target.Close())
			require.NoError(t, system.Delete(ctx, "appends"))
			_, err = system.Open(ctx, "appends")
			require.ErrorIs(t, err, workload.ErrNoLog)
		}
	})
}

func TestAnIdempotentProducerIsRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	proxy, err := Listen("127.0.0.1:0", broker(t, ctx))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	c := connect(t, proxy.Address(), kgo.DisableIdempotentWrite())

	raw := encode(t, 1, "value")
	raw[producerAt] = 0
	seal(raw)
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, ackTime
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "orders"
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = raw
	topic.Partitions = append(topic.Partitions, p)
	request.Topics = append(request.Topics, topic)
	response, err := c.SeedBrokers()[0].Request(ctx, request)
	require.NoError(t, err)
	code := response.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
	require.Equal(t, kerr.UnsupportedForMessageFormat, kerr.ErrorForCode(code))
}
