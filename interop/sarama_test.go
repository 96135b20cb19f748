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
		var beforeLast int64
		for i, codec := range []sarama.CompressionCodec{
			sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
		} {
			beforeLast = between()
			s := config()
			s.Producer.Compression = codec
			p, err := sarama.NewSyncProducer(brokers, s)
			require.NoError(c, err)
			for n := range perCodec {
				_, offset, err := p.SendMessage(&sarama.ProducerMessage{Topic: "sarama", Value: sarama.StringEncoder(fmt.Sprintf("%s-%d", codecs[i], n))})
				require.NoError(c, err)
				require.EqualValues(c, written+i*perCodec+n, offset)
			}
			require.NoError(c, p.Close())
		}
		want := expected(codecs)
		last := int64(len(want) - perCodec)

		client, err := sarama.NewClient(brokers, config())
		require.NoError(c, err)
		defer client.Close()
		consumer, err := sarama.NewConsumerFromClient(client)
		require.NoError(c, err)
		require.Equal(c, want, consumePartition(c, consumer, "sarama", sarama.OffsetOldest, len(want)))
		found, err := client.GetOffset("sarama", 0, beforeLast)
		require.NoError(c, err)
		require.Equal(c, last, found)
		require.Equal(c, want[last:], consumePartition(c, consumer, "sarama", found, perCodec))

		group, err := sarama.NewConsumerGroupFromClient("sarama", client)
		require.NoError(c, err)
		ctx, cancel := context.WithTimeout(c.Context(), 2*time.Minute)
		defer cancel()
		member := &saramaMember{want: len(want), done: cancel}
		for ctx.Err() == nil {
			require.NoError(c, group.Consume(ctx, []string{"sarama"}, member))
		}
		require.Equal(c, want, member.got)
		require.NoError(c, group.Close())

		admin, err := sarama.NewClusterAdmin(brokers, config())
		require.NoError(c, err)
		defer admin.Close()
		committed, err := admin.ListConsumerGroupOffsets("sarama", map[string][]int32{"sarama": {0}})
		require.NoError(c, err)
		require.EqualValues(c, len(want), committed.GetBlock("sarama", 0).Offset)
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

// consumePartition reads count messages by assignment.
func consumePartition(c *cluster, consumer sarama.Consumer, topic string, from int64, count int) []record {
	c.Helper()
	partition, err := consumer.ConsumePartition(topic, 0, from)
	require.NoError(c, err)
	defer func() { require.NoError(c, partition.Close()) }()
	var records []record
	for range count {
		select {
		case m := <-partition.Messages():
			records = append(records, record{m.Offset, string(m.Value)})
		case <-time.After(30 * time.Second):
			require.Fail(c, "no message", "%d of %d", len(records), count)
		}
	}
	return records
}

// saramaMember reads in a group until it has all, and commits.
type saramaMember struct {
	got  []record
	want int
	done func()
}

func (s *saramaMember) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (s *saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (s *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		session.MarkMessage(m, "")
		s.got = append(s.got, record{m.Offset, string(m.Value)})
		if len(s.got) == s.want {
			session.Commit()
			s.done()
			return nil
		}
	}
	return nil
}
