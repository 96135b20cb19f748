package reading

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
)

// inflateAll reads the records of a chunk of batches that inflate to so many bytes, for a holder.
func inflateAll(t *testing.T, turns *Turns, batches, bytes int) error {
	t.Helper()
	c := compressedChunk(t, turns, budget.NewPool(1<<30), batches, bytes/2, record.Gzip)
	defer c.slow.given.releaseAll()
	for _, err := range c.Records(t.Context()) {
		if err != nil {
			return err
		}
		c.Taken()
	}
	return nil
}

func TestWhatBatchesInflateToBeyondOrdinaryOnesHasARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30)
		mallory, alice := turns.For("mallory"), turns.For("alice")
		took := func(turns *Turns, batches, bytes int) time.Duration {
			t.Helper()
			begun := time.Now()
			require.NoError(t, inflateAll(t, turns, batches, bytes))
			return time.Since(begun)
		}
		require.Zero(t, took(mallory, 64, 1<<20), "as much as the largest batch has")
		require.Zero(t, took(mallory, 1, 6<<20), "how much it is shows afterwards")
		require.InDelta(t, float64(6*time.Second/64), float64(took(mallory, 1, 6<<20)), 3e7, "less what is ordinary")
		require.Zero(t, took(alice, 1, 6<<20), "others do not wait for that")
		time.Sleep(2 * time.Second)
		turns.excess.rates.Spend("mallory", 60<<20)
		require.Zero(t, took(mallory, 1, 12<<20))
		var r *record.Refusal
		require.ErrorAs(t, inflateAll(t, mallory, 1, 6<<20), &r)
		require.Equal(t, record.Busy, r.Reason)
		require.Zero(t, took(mallory, 1, 1<<10), "small ones do not wait")
	})
}

func TestBatchesOfOrdinaryCompressionOweNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30).For("alice")
		turns.excess.rates.Spend("alice", 1<<30)
		begun := time.Now()
		for _, codec := range []record.Codec{record.Gzip, record.Snappy, record.LZ4} {
			c, stored, inflated := benchChunk(t, 6<<20, codec)
			require.Less(t, inflated, ordinaryGrowth*stored)
			c.slow.turns = turns
			for _, err := range c.Records(t.Context()) {
				require.NoError(t, err, codec)
			}
		}
		require.Zero(t, time.Since(begun))
	})
}

func TestReadersThatInflateMuchWaitWithoutAChunkAndOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30).For("mallory")
		turns.excess.rates.Spend("mallory", excessBurst+64<<20)
		begun := time.Now()
		for i := range 3 {
			paid, err := turns.excess.pay(t.Context(), "mallory")
			require.NoError(t, err)
			require.True(t, paid)
			require.InDelta(t, float64(time.Second)+float64(i+1)*float64(time.Second)/64, float64(time.Since(begun)), 1e6)
			turns.excess.rates.Spend("mallory", 1)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := turns.excess.pay(gone, "mallory")
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestAReaderGivesItsChunkUpWhileItsHolderOwesSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30).For("mallory")
		turns.excess.rates.Spend("mallory", excessBurst+64<<20)
		for _, inflates := range []bool{false, true} {
			reads := budget.NewPool(1 << 20)
			r := &Reader{reader: new(runtime.Reader), slow: &metered{reads: reads, turns: turns, inflates: inflates}}
			held := reads.TryAcquire(1000)
			c := Chunk{Parts: [][]byte{{1}}, Release: func() { reads.Release(1000) }}
			r.slow.whole, r.slow.rest = c, c
			require.True(t, held)
			begun := time.Now()
			paid := make(chan error)
			go func() { paid <- r.pay(t.Context()) }()
			synctest.Wait()
			if !inflates {
				require.EqualValues(t, 1000, reads.Used(), "one that inflates nothing does not wait")
				require.NoError(t, <-paid)
				require.Zero(t, time.Since(begun))
				continue
			}
			require.Zero(t, reads.Used())
			require.NoError(t, <-paid)
			require.GreaterOrEqual(t, time.Since(begun), time.Second)
			require.True(t, r.slow.paid.Load(), "it inflates a batch then, whatever others owe")
		}
	})
}
