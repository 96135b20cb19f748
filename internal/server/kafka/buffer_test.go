package kafkaserver

import (
	"bufio"
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/record"
)

func TestMemoryForARequestIsNeverTooSmallNorMuchTooLarge(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, smallBuffer - 1, smallBuffer, smallBuffer + 1, 3 * smallBuffer, 512 << 10, 512<<10 + 1, keptBuffer} {
		class, capacity := bufferClass(size)
		require.NotNil(t, class, size)
		require.GreaterOrEqual(t, capacity, size)
		require.LessOrEqual(t, capacity, max(smallBuffer, 2*size+keptBuffer-1<<20), size)
		again, same := bufferClass(capacity)
		require.Same(t, class, again, "%d and %d share memory", size, capacity)
		require.Equal(t, capacity, same)
	}
	class, capacity := bufferClass(keptBuffer + 1)
	require.Nil(t, class)
	require.Equal(t, keptBuffer+1, capacity)
}

func TestMemoryThatIsUsedAgainIsChargedInFull(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	client, server := net.Pipe()
	defer client.Close()
	c := &connection{sending: sending{conn: server}, server: d.server, ctx: context.Background(), in: bufio.NewReader(server)}
	for _, size := range []int{100, 5000, 600 << 10, keptBuffer + 1} {
		go func() { _, _ = client.Write(make([]byte, size)) }()
		q := &call{connection: c, key: produceKey}
		require.NoError(t, q.admit(size))
		require.NoError(t, q.receive(size))
		require.Len(t, q.buffer.bytes, size)
		require.EqualValues(t, cap(q.buffer.bytes), d.server.requests.Used())
		q.release()
		require.Zero(t, d.server.requests.Used())
	}
}

func TestAnAnswerThatIsReadyDoesNotWaitForAFetchBehindIt(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	c := d.raw()
	produce, idle := produceRequest("orders", acksAll, batchOf(t, record.None, "one")), idleFetch("orders", 1)
	_, err := c.Write(append(append(c.frame(produce), c.frame(produce)...), c.frame(idle)...))
	require.NoError(t, err)
	// The fetch would wait for longer than the connection's own deadline.
	for i := range int64(2) {
		r, correlation := c.receive(produce)
		require.EqualValues(t, i+1, correlation)
		require.Equal(t, i, r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].BaseOffset)
	}
}

// idleFetch waits for more bytes than there will be.
func idleFetch(topic string, from int64) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.Version, q.MaxWaitMillis, q.MinBytes, q.MaxBytes = 12, 3_600_000, 1<<20, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = from, 1<<20, -1
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return q
}
