package reading

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
)

// compressedChunk is a chunk of so many compressed batches of two records each, with values of so many zeros.
func compressedChunk(t *testing.T, turns *Turns, reads *budget.Pool, batches, zeros int, codec record.Codec) *Chunk {
	t.Helper()
	c := &Chunk{slow: newMetered(reads, nil, turns), Count: 2 * batches}
	for i := range batches {
		var b record.Builder
		for range 2 {
			require.NoError(t, b.Add(record.Record{Value: make([]byte, zeros)}))
		}
		batch, err := b.Finish(codec)
		require.NoError(t, err)
		batch.SetBaseOffset(record.Offset(2 * i))
		c.Parts = append(c.Parts, batch)
		c.Bytes += len(batch)
	}
	return c
}

func TestRecordsOfACompressedBatchAreInflatedInATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30)
		var other turn
		require.NoError(t, other.begin(t.Context(), turns))
		c := compressedChunk(t, turns, budget.NewPool(1<<20), 1, 100_000, record.Snappy)
		waits, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, err := range c.Records(waits) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		go func() {
			time.Sleep(time.Hour)
			other.end()
		}()
		asked, got := time.Now(), 0
		for _, err := range c.Records(t.Context()) {
			require.NoError(t, err)
			require.Equal(t, 1, turns.all.Free(), "a client may take any time for a record")
			got++
		}
		require.Equal(t, 2, got)
		require.Equal(t, time.Hour, time.Since(asked))
	})
}

func TestABatchThatInflatesToLittleTakesNoTurn(t *testing.T) {
	turns := newTurns(1, 1<<30)
	var other turn
	require.NoError(t, other.begin(t.Context(), turns))
	defer other.end()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, codec := range []record.Codec{record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		reads := budget.NewPool(1 << 20)
		got := 0
		for _, err := range compressedChunk(t, turns, reads, 3, 500, codec).Records(ended) {
			require.NoError(t, err, codec)
			got++
		}
		require.Equal(t, 6, got)
		require.GreaterOrEqual(t, reads.Used(), int64(6*500), "it is counted all the same")
	}
	for _, err := range compressedChunk(t, turns, budget.NewPool(1<<20), 1, 30_000, record.Zstd).Records(ended) {
		require.ErrorIs(t, err, context.Canceled, "a small batch may inflate to much more than plain records of its size have")
	}
}

func TestInflatedBatchesAreCountedUntilTheirRecordsAreTaken(t *testing.T) {
	t.Parallel()
	reads := budget.NewPool(1 << 20)
	c := compressedChunk(t, newTurns(1, 1<<30), reads, 3, 1000, record.Snappy)
	var used []int64
	for r, err := range c.Records(t.Context()) {
		require.NoError(t, err)
		if r.Offset == 3 {
			c.Taken() // 0 to 2
		}
		used = append(used, reads.Used())
	}
	one := used[0]
	require.GreaterOrEqual(t, one, int64(2000))
	require.Equal(t, []int64{one, one, 2 * one, one, 2 * one, 2 * one}, used)
	require.Equal(t, 2*one, reads.Used())
	c.Taken()
	require.Zero(t, reads.Used())

	for range c.Records(t.Context()) {
		break
	}
	require.Equal(t, one, reads.Used())
	c.slow.given.releaseAll() // as the reader does when it is closed
	require.Zero(t, reads.Used())
	c.Taken()
	require.Zero(t, reads.Used(), "it is not given back twice")
}

func TestBatchesThatAreNotWantedAreNotInflated(t *testing.T) {
	t.Parallel()
	reads := budget.NewPool(1 << 20)
	c := compressedChunk(t, newTurns(1, 1<<30), reads, 3, 1000, record.Snappy)
	var got []record.Offset
	for r, err := range c.RecordsOf(t.Context(), func(b record.Batch) bool { return b.BaseOffset() == 2 }) {
		require.NoError(t, err)
		got = append(got, r.Offset)
	}
	require.Equal(t, []record.Offset{2, 3}, got)
	require.Len(t, c.slow.inflations.held, 1)
}
