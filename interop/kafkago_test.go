package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// kafka-go has no idempotent writer and no call to trim.
func TestKafkaGo(t *testing.T) {
	onClusters(t, func(c *cluster) {
		c.prepare("kafkago")
		ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
		defer cancel()
		brokers := strings.Split(c.bootstrap, ",")
		var beforeLast int64
		for i, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
			beforeLast = between()
			w := &kafka.Writer{Addr: kafka.TCP(brokers...), Topic: "kafkago", Compression: codec, RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond}
			var messages []kafka.Message
			for n := range perCodec {
				messages = append(messages, kafka.Message{Value: fmt.Appendf(nil, "%s-%d", codecs[i], n)})
			}
			require.NoError(c, w.WriteMessages(ctx, messages...))
			require.NoError(c, w.Close())
		}
		want := expected(codecs)
		last := int64(len(want) - perCodec)

		// An empty group: by assignment.
		for _, group := range []string{"", "kafkago"} {
			r := kafka.NewReader(kafka.ReaderConfig{Brokers: brokers, Topic: "kafkago", GroupID: group, StartOffset: kafka.FirstOffset, MaxWait: 100 * time.Millisecond})
			require.Equal(c, want, readMessages(ctx, c, r, len(want)))
			if group == "" {
				require.NoError(c, r.SetOffsetAt(ctx, time.UnixMilli(beforeLast)))
				require.Equal(c, want[last:], readMessages(ctx, c, r, perCodec))
			}
			require.NoError(c, r.Close())
		}

		client := &kafka.Client{Addr: kafka.TCP(brokers...)}
		committed, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: "kafkago", Topics: map[string][]int{"kafkago": {0}}})
		require.NoError(c, err)
		require.EqualValues(c, len(want), committed.Topics["kafkago"][0].CommittedOffset)
		found, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{"kafkago": {
			kafka.TimeOffsetOf(0, time.UnixMilli(beforeLast)), kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0),
		}}})
		require.NoError(c, err)
		require.NoError(c, found.Topics["kafkago"][0].Error)
		require.EqualValues(c, 0, found.Topics["kafkago"][0].FirstOffset)
		require.EqualValues(c, len(want), found.Topics["kafkago"][0].LastOffset)
		require.Contains(c, found.Topics["kafkago"][0].Offsets, last)
		created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: "kafkago-more", NumPartitions: 3, ReplicationFactor: c.nodes}}})
		require.NoError(c, err)
		require.NoError(c, created.Errors["kafkago-more"])
		metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{"kafkago-more"}})
		require.NoError(c, err)
		require.Len(c, metadata.Topics[0].Partitions, 3)
		c.checkWritten("kafkago", codecs)
	})
}

// readMessages reads count messages; in a group, it commits them.
func readMessages(ctx context.Context, c *cluster, r *kafka.Reader, count int) []record {
	c.Helper()
	var records []record
	for range count {
		m, err := r.ReadMessage(ctx)
		require.NoError(c, err)
		records = append(records, record{m.Offset, string(m.Value)})
	}
	return records
}
