package kafkaserver

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/topics"
)

// behind is a node that knows only the first of the records in its log before it
// has asked, as one does that has just been elected, or replaced, or follows.
type behind struct {
	backend.Node
	asked atomic.Bool
}

func (b *behind) Bounds(c verbs.Caller, log string) (verbs.Bounds, error) {
	bounds, err := b.Node.Bounds(c, log)
	if !b.asked.Load() {
		bounds.End = min(bounds.End, 1)
	}
	return bounds, err
}

func (b *behind) Info(ctx context.Context, c verbs.Caller, log string) (verbs.Info, error) {
	b.asked.Store(true)
	return b.Node.Info(ctx, c, log)
}

func TestNoOffsetIsLookedUpInALogThatIsNotKnownWhole(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	d.appendDirectly("orders", batchOf(t, record.None, "a"))
	d.appendDirectly("orders", batchOf(t, record.None, "b"))
	b, err := d.node.Bounds(verbs.Caller{}, "orders")
	require.NoError(t, err)
	lagging := &behind{Node: guard.New(d.node, guard.Options{})}
	again := d.over(lagging)

	require.EqualValues(t, 2, again.endOfEpoch(int32(b.Term)).EndOffset, "a consumer that has read both sees no truncation")
	lagging.asked.Store(false)
	require.EqualValues(t, 0, again.listOffset("orders", 1).Offset)
	require.True(t, lagging.asked.Load(), "a later record may be the first of that time or later")
	lagging.asked.Store(false)
	require.EqualValues(t, 2, again.listOffset("orders", topics.TimeLatest).Offset)
	lagging.asked.Store(false)
	q := fetchRequest(11, 0, 1, 1<<20, 2, "orders")
	require.Zero(t, again.raw().fetch(q).Topics[0].Partitions[0].ErrorCode, "it stands at the end")
	lagging.asked.Store(false)
	q.Topics[0].Partitions[0].FetchOffset = 3
	require.Equal(t, kerr.OffsetOutOfRange.Code, again.raw().fetch(q).Topics[0].Partitions[0].ErrorCode)
}

// What comes between the question for the bounds and the read is in the answer, and below
// its high watermark.
func TestAFetchHasNoRecordsAboveItsHighWatermark(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	d.appendDirectly("orders", batchOf(t, record.None, "a"))
	d.appendDirectly("orders", batchOf(t, record.None, "b"))
	lagging := d.over(&behind{Node: guard.New(d.node, guard.Options{})})
	p := lagging.raw().fetch(fetchRequest(11, 0, 1, 1<<20, 0, "orders")).Topics[0].Partitions[0]
	require.Equal(t, d.stored("orders"), p.RecordBatches)
	require.EqualValues(t, 2, p.HighWatermark)
	require.EqualValues(t, 2, p.LastStableOffset)
}

// together is a node that makes sure of several logs only when all are asked for.
type together struct {
	backend.Node
	missing atomic.Int32
	all     chan struct{}
}

func (n *together) Info(ctx context.Context, c verbs.Caller, log string) (verbs.Info, error) {
	if n.missing.Add(-1) == 0 {
		close(n.all)
	}
	select {
	case <-n.all:
	case <-ctx.Done():
		return verbs.Info{}, ctx.Err()
	}
	return n.Node.Info(ctx, c, log)
}

func TestOffsetsOfManyPartitionsAreLookedUpAtTheSameTime(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	const partitions = 20
	d.create("orders", partitions)
	n := &together{Node: guard.New(d.node, guard.Options{}), all: make(chan struct{})}
	n.missing.Store(partitions)
	q := kmsg.NewPtrListOffsetsRequest()
	q.Version = 6
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = "orders"
	for i := range int32(partitions) {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = i, topics.TimeLatest
		topic.Partitions = append(topic.Partitions, p)
	}
	q.Topics = append(q.Topics, topic)
	c := d.over(n).raw()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	c.send(q)
	r, _ := c.receive(q)
	require.Len(t, r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions, partitions)
	for i, p := range r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
		require.Zero(t, p.ErrorCode)
		require.EqualValues(t, i, p.Partition)
	}
}
