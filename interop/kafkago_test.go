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

func TestKafkaGo(t *testing.T) {
	onClusters(t, func(c *cluster) {
		c.prepare("kafkago")
		ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
		defer cancel()
		brokers := strings.Split(c.bootstrap, ",")
		for i, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
			w := &kafka.Writer{Addr: kafka.TCP(brokers...), Topic: "kafkago", Compression: codec, RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond}
			var messages []kafka.Message
			for n := range perCodec {
				messages = append(messages, kafka.Message{Value: fmt.Appendf(nil, "%s-%d", codecs[i], n)})
			}
			require.NoError(c, w.WriteMessages(ctx, messages...))
			require.NoError(c, w.Close())
		}
		all := written + perCodec*len(codecs)
		for _, group := range []string{"", "kafkago"} {
			r := kafka.NewReader(kafka.ReaderConfig{Brokers: brokers, Topic: "kafkago", GroupID: group, StartOffset: kafka.FirstOffset, MaxWait: 100 * time.Millisecond})
			for n := range all {
				m, err := r.ReadMessage(ctx)
				require.NoError(c, err)
				require.EqualValues(c, n, m.Offset)
			}
			require.NoError(c, r.Close())
		}
		client := &kafka.Client{Addr: kafka.TCP(brokers...)}
		found, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{"kafkago": {kafka.TimeOffsetOf(0, time.Now().Add(-time.Hour)), kafka.LastOffsetOf(0)}}})
		require.NoError(c, err)
		require.NoError(c, found.Topics["kafkago"][0].Error)
		require.EqualValues(c, all, found.Topics["kafkago"][0].LastOffset)
		created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: "kafkago-more", NumPartitions: 3, ReplicationFactor: c.nodes}}})
		require.NoError(c, err)
		require.NoError(c, created.Errors["kafkago-more"])
		metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{"kafkago-more"}})
		require.NoError(c, err)
		require.Len(c, metadata.Topics[0].Partitions, 3)
		c.checkWritten("kafkago", codecs)
	})
}
