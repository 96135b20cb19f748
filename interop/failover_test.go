package interop

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The leader of a log dies while an idempotent producer has requests in flight
// and a group reads. Everything that was acknowledged is there, once and in
// order, and the group gets to the end.
func TestNothingIsLostOrDoubledWhenALeaderDies(t *testing.T) {
	c := start(t, 3)
	c.strandline("", "log", "create", "orders")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	seeds := kgo.SeedBrokers(strings.Split(c.bootstrap, ",")...)
	p, err := kgo.NewClient(seeds, kgo.DefaultProduceTopic("orders"), kgo.ProducerBatchMaxBytes(4<<10), kgo.UnknownTopicRetries(-1))
	require.NoError(t, err)
	defer p.Close()
	group, err := kgo.NewClient(seeds, kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("orders"), kgo.SessionTimeout(6*time.Second))
	require.NoError(t, err)
	defer group.Close()

	const count = 20_000
	var acknowledged atomic.Int64
	half := make(chan struct{})
	for i := range count {
		p.Produce(ctx, kgo.StringRecord(fmt.Sprintf("%06d", i)), func(_ *kgo.Record, err error) {
			require.NoError(t, err)
			if acknowledged.Add(1) == count/2 {
				close(half)
			}
		})
		if i == count/2+1000 {
			<-half
			c.kill(ctx, p, "orders")
		}
	}
	require.NoError(t, p.Flush(ctx))
	require.EqualValues(t, count, acknowledged.Load())

	for n := 0; n < count; {
		fetches := group.PollFetches(ctx)
		require.NoError(t, ctx.Err(), "read %d of %d", n, count)
		fetches.EachRecord(func(r *kgo.Record) {
			require.EqualValues(t, n, r.Offset)
			require.Equal(t, fmt.Sprintf("%06d", n), string(r.Value))
			n++
		})
	}
}

// kill ends the node that leads a topic, as a power cut would.
func (c *cluster) kill(ctx context.Context, client *kgo.Client, topic string) {
	topics, err := kadm.NewClient(client).ListTopics(ctx, topic)
	require.NoError(c, err)
	leader := topics[topic].Partitions[0].Leader
	require.Positive(c, leader)
	brokers, err := kadm.NewClient(client).ListBrokers(ctx)
	require.NoError(c, err)
	for _, b := range brokers {
		if b.NodeID == leader {
			// A node's rack is its name: n1, n2, n3.
			require.NoError(c, c.processes[(*b.Rack)[1]-'1'].Process.Kill())
		}
	}
}
