package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
)

func TestSarama(t *testing.T) {
	onClusters(t, func(c *cluster) {
		c.prepare("sarama")
		brokers := strings.Split(c.bootstrap, ",")
		config := func() *sarama.Config {
			s := sarama.NewConfig()
			s.Version = sarama.V2_8_0_0
			s.Producer.RequiredAcks = sarama.WaitForAll
			s.Producer.Return.Successes = true
			s.Producer.Idempotent = true
			s.Net.MaxOpenRequests = 1
			s.Consumer.Offsets.Initial = sarama.OffsetOldest
			return s
		}
		for i, codec := range []sarama.CompressionCodec{
			sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
		} {
			s := config()
			s.Producer.Compression = codec
			p, err := sarama.NewSyncProducer(brokers, s)
			require.NoError(c, err)
			for n := range perCodec {
				_, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: "sarama", Value: sarama.StringEncoder(fmt.Sprintf("%s-%d", codecs[i], n))})
				require.NoError(c, err)
			}
			require.NoError(c, p.Close())
		}
		all := written + perCodec*len(codecs)

		client, err := sarama.NewClient(brokers, config())
		require.NoError(c, err)
		defer client.Close()
		at, err := client.GetOffset("sarama", 0, time.Now().Add(-time.Hour).UnixMilli())
		require.NoError(c, err)
		require.Zero(c, at)
		consumer, err := sarama.NewConsumerFromClient(client)
		require.NoError(c, err)
		partition, err := consumer.ConsumePartition("sarama", 0, sarama.OffsetOldest)
		require.NoError(c, err)
		for n := range all {
			select {
			case m := <-partition.Messages():
				require.EqualValues(c, n, m.Offset)
			case <-time.After(30 * time.Second):
				c.Fatal("no message")
			}
		}
		require.NoError(c, partition.Close())

		group, err := sarama.NewConsumerGroupFromClient("sarama", client)
		require.NoError(c, err)
		ctx, cancel := context.WithTimeout(c.Context(), 30*time.Second)
		counter := &saramaCounter{want: all, done: cancel}
		for ctx.Err() == nil {
			require.NoError(c, group.Consume(ctx, []string{"sarama"}, counter))
		}
		require.Equal(c, all, counter.got)
		require.NoError(c, group.Close())

		admin, err := sarama.NewClusterAdmin(brokers, config())
		require.NoError(c, err)
		defer admin.Close()
		require.NoError(c, admin.CreateTopic("sarama-more", &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: int16(c.nodes)}, false))
		topics, err := admin.ListTopics()
		require.NoError(c, err)
		require.EqualValues(c, 3, topics["sarama-more"].NumPartitions)
		require.NoError(c, admin.DeleteRecords("sarama", map[int32]int64{0: 5}))
		start, err := client.GetOffset("sarama", 0, sarama.OffsetOldest)
		require.NoError(c, err)
		require.EqualValues(c, 5, start)
		c.checkWritten("sarama", codecs)
	})
}

// saramaCounter counts messages in a group until it has all.
type saramaCounter struct {
	got, want int
	done      func()
}

func (s *saramaCounter) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (s *saramaCounter) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (s *saramaCounter) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		session.MarkMessage(m, "")
		if s.got++; s.got == s.want {
			session.Commit()
			s.done()
			return nil
		}
	}
	return nil
}
