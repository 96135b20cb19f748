package node

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/filter"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/cost"
)

// largeReads is a node with a log of one record of many zeros.
func largeReads(t *testing.T, codec record.Codec) (n *Node, used func() int64) {
	t.Helper()
	n, err := Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), Memory: 256 << 20, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	create(t, n, "orders", settings.Config{})
	var b record.Builder
	b.Reset(nil)
	require.NoError(t, b.Add(record.Record{Value: make([]byte, large)}))
	batch, err := b.Finish(codec)
	require.NoError(t, err)
	require.Nil(t, appendTo(t, n, "orders", &sequence.Append{
		ExpectedEnd: sequence.NoExpectation, Batches: []record.Batch{batch}, Records: 1, Bytes: len(batch),
	}).Refusal)
	return n, func() int64 { return n.memory.Reads.Used() + n.memory.StalledReads.Used() }
}

const large = 8 << 20

func readLarge(t *testing.T, n *Node, q reading.Request) *reading.Reader {
	t.Helper()
	q.Metered, q.Until = true, reading.NoOffset
	r, err := n.Read(t.Context(), anyone, "orders", q)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

func TestAChunkOfALargeBatchTakesItsSizeOfTheMemory(t *testing.T) {
	t.Parallel()
	n, used := largeReads(t, record.None)
	r := readLarge(t, n, reading.Request{})
	c, err := r.Next(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, used(), int64(large))
	c.Release()
	require.Zero(t, used())

	others := n.memory.Reads.Size() - large
	require.True(t, n.memory.Reads.TryAcquire(others))
	r = readLarge(t, n, reading.Request{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	_, err = r.Next(ctx)
	cancel()
	require.ErrorIs(t, err, context.DeadlineExceeded, "it waits for more than a usual chunk takes")
	require.Equal(t, others, used(), "and holds nothing")
	n.memory.Reads.Release(others)
	c, err = r.Next(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, c.Bytes, large)
	r.Close()
	require.Zero(t, used())
}

func TestWhatIsSelectedOfACompressedBatchTakesItsSizeOfTheMemory(t *testing.T) {
	t.Parallel()
	n, used := largeReads(t, record.Zstd)
	selects := &filter.Spec{Projection: filter.Projection{DropHeaders: true}}
	r := readLarge(t, n, reading.Request{Filter: selects})
	c, err := r.Next(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, c.Bytes, large)
	require.GreaterOrEqual(t, used(), int64(large))
	c.Release()
	require.Zero(t, used())

	r = readLarge(t, n, reading.Request{Filter: selects})
	_, err = r.Next(t.Context())
	require.NoError(t, err)
	r.Close()
	require.Zero(t, used(), "the client has gone without a word")

	others := n.memory.Reads.Size() - large/2
	require.True(t, n.memory.Reads.TryAcquire(others))
	_, err = readLarge(t, n, reading.Request{Filter: selects}).Next(t.Context())
	requireReason(t, record.Busy, err)
	require.Equal(t, others, used())
	n.memory.Reads.Release(others)
}

// What inflates to much is counted before: where there is no memory for it, next to none is allocated.
func TestABatchForWhichThereIsNoMemoryCostsNotWhatItInflatesTo(t *testing.T) {
	n, used := largeReads(t, record.Gzip)
	c, err := readLarge(t, n, reading.Request{}).Next(t.Context())
	require.NoError(t, err)
	defer c.Release()
	others := n.memory.Reads.Size() - 2*large // it would fit, and might be larger
	require.True(t, n.memory.Reads.TryAcquire(others))
	defer n.memory.Reads.Release(others)
	before := used()
	tried, _ := cost.Of(10, func() {
		for _, err := range c.Records(t.Context()) {
			requireReason(t, record.Busy, err)
		}
	})
	require.Less(t, tried, cost.Most(large+large/4), "up to 4 MiB are not counted, and grow to that")
	require.Equal(t, before, used())
}

func TestABatchThatIsInflatedTakesItsSizeOfTheMemory(t *testing.T) {
	t.Parallel()
	n, used := largeReads(t, record.Zstd)
	c, err := readLarge(t, n, reading.Request{}).Next(t.Context())
	require.NoError(t, err)
	before := used()
	require.Less(t, before, int64(large))
	for got, err := range c.Records(t.Context()) {
		require.NoError(t, err)
		require.Len(t, got.Value, large)
		require.GreaterOrEqual(t, used(), int64(large))
	}
	require.GreaterOrEqual(t, used(), int64(large), "until the client has taken it")
	c.Taken()
	require.Equal(t, before, used())
	others := n.memory.Reads.Size() - large
	require.True(t, n.memory.Reads.TryAcquire(others))
	for _, err := range c.Records(t.Context()) {
		requireReason(t, record.Busy, err)
	}
	n.memory.Reads.Release(others)
	c.Release()
	require.Zero(t, used())
}
