package reading

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/filter"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/replica/tail"
)

// again is a log of one chunk, which is read again from where the reader was moved back to.
type again struct {
	*Reader
	whole Chunk
	read  int // bytes
}

// over returns a reader of a chunk, for the holder of the chunk's turns.
func over(c *Chunk) *again {
	c.Release = func() {}
	r := &Reader{
		log: &endingLog{err: io.EOF}, tail: new(tail.Tail), reader: new(runtime.Reader), until: math.MaxInt64,
		next: record.Offset(c.Count), slow: c.slow,
	}
	return &again{Reader: r, whole: *c, read: c.Bytes}
}

// records reads to the end of the chunk.
func (a *again) records(ctx context.Context) error {
	c := a.whole
	for {
		next := c.First
		for r, err := range c.Records(ctx) {
			if err != nil {
				return err
			}
			if r.Offset != next {
				return record.Refuse(record.Corrupt, "offset %d, expected %d", r.Offset, next)
			}
			next++
			c.Taken()
		}
		if through := c.Through(); through != next {
			return record.Refuse(record.Corrupt, "through %d, expected %d", through, next)
		}
		end := a.next
		if err := a.pay(ctx); err != nil {
			return err
		}
		if a.next == end {
			return nil
		}
		c = from(a.whole, a.next)
		a.read += c.Bytes
		a.next = end
	}
}

// from returns the batches of a chunk from an offset on, one batch for each part.
func from(c Chunk, at record.Offset) Chunk {
	for record.Batch(c.Parts[0]).BaseOffset() < at {
		c.Bytes, c.Parts = c.Bytes-len(c.Parts[0]), c.Parts[1:]
	}
	c.Count -= int(at - c.First)
	c.First = at
	return c
}

// inflateAll reads the records of a chunk of batches that inflate to so many bytes, for a holder.
func inflateAll(t *testing.T, turns *Turns, batches, bytes int) {
	t.Helper()
	r := over(compressedChunk(t, turns, budget.NewPool(1<<30), batches, bytes/2, record.Gzip))
	defer r.slow.given.releaseAll()
	require.NoError(t, r.records(t.Context()))
	r.slow.payments.end()
}

func TestWhatBatchesInflateToBeyondOrdinaryOnesHasARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30)
		mallory, alice := turns.For("mallory"), turns.For("alice")
		took := func(turns *Turns, batches, bytes int) time.Duration {
			t.Helper()
			begun := time.Now()
			inflateAll(t, turns, batches, bytes)
			return time.Since(begun)
		}
		require.Zero(t, took(mallory, 60, 1<<20), "less than the largest batch has")
		require.Zero(t, took(mallory, 1, 1<<10), "small ones owe nothing")
		mallory.excess.rates.Spend("mallory", 64<<20)
		owed := time.Second * (60<<20 + 2*excessAhead) / excessRate
		require.InDelta(t, float64(owed), float64(took(mallory, 1, 6<<20)), float64(200*time.Millisecond), "and it pays before it goes on")
		require.Zero(t, took(alice, 1, 6<<20), "others do not wait for that")
		require.Zero(t, took(mallory, 1, 1<<10), "small ones do not wait")
		begun := time.Now()
		for range 64 {
			inflateAll(t, mallory, 1, 6<<20)
		}
		require.InDelta(t, float64(64*6*time.Second<<20/excessRate), float64(time.Since(begun)), float64(300*time.Millisecond))
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
			c.Bytes, c.slow = stored, newMetered(budget.NewPool(1<<30), nil, turns)
			require.NoError(t, over(c).records(t.Context()))
		}
		require.Zero(t, time.Since(begun))
	})
}

// growing is a chunk of batches that inflate to so many times what is stored of them.
func growing(t *testing.T, turns *Turns, batches, stored, times int) *Chunk {
	t.Helper()
	c := &Chunk{slow: newMetered(budget.NewPool(1<<30), nil, turns), Count: batches}
	value := make([]byte, times*stored)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(value[:stored])
	for i := range batches {
		var b record.Builder
		require.NoError(t, b.Add(record.Record{Value: value}))
		batch, err := b.Finish(record.Gzip)
		require.NoError(t, err)
		batch.SetBaseOffset(record.Offset(i))
		c.Parts = append(c.Parts, batch)
		c.Bytes += len(batch)
	}
	return c
}

func TestReadersOfOneHolderWaitWithoutAChunkAndReadLittleAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2, 1<<30).For("alice")
		turns.excess.rates.Spend("alice", excessBurst)
		begun := time.Now()
		var readers sync.WaitGroup
		all := growing(t, turns, 64, 16<<10, 20)
		for range 16 {
			c := *all
			c.slow = newMetered(budget.NewPool(1<<30), nil, turns)
			r := over(&c)
			readers.Go(func() {
				require.NoError(t, r.records(t.Context()), "no reader is refused")
				require.LessOrEqual(t, r.read, 5*c.Bytes/2)
			})
		}
		readers.Wait()
		require.InDelta(t, float64(64*time.Second<<20/excessRate), float64(time.Since(begun)), float64(time.Second/2), "16 times 4 MiB beyond 16 MiB each")
	})
}

func TestAFilterThatComesToABatchWhichIsOwedForReadsItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30).For("alice")
		turns.excess.rates.Spend("alice", excessBurst+excessRate)
		s, _, c := selectingOver(t, turns, filter.Spec{Keys: [][]byte{[]byte("a")}}, record.None, 2)
		var b record.Builder
		for range c.Count {
			require.NoError(t, b.Add(record.Record{Key: []byte("a"), Value: make([]byte, 200<<10)}))
		}
		batch, err := b.Finish(record.Gzip)
		require.NoError(t, err)
		c.Parts, c.Bytes = [][]byte{batch}, len(batch)
		s.reader.slow.whole, s.reader.slow.rest = c, c
		p := pass{selecting: s, chunk: &c}
		require.NoError(t, p.run(t.Context()))
		require.True(t, p.divided)
		require.Zero(t, s.at)
		require.Empty(t, p.selection.Bytes)
		s.rewind()
		begun := time.Now()
		require.NoError(t, s.reader.pay(t.Context()))
		require.InDelta(t, float64(time.Second+time.Second*excessAhead/excessRate), float64(time.Since(begun)), float64(100*time.Millisecond))
		p = pass{selecting: s, chunk: &c}
		require.NoError(t, p.run(t.Context()))
		require.Positive(t, p.count)
		out := s.progress(0)
		out.Parts, out.Bytes, out.Count, out.slow = [][]byte{c.Parts[0]}, c.Bytes, c.Count, s.reader.slow
		s.reader.slow.payments.ahead = 0
		turns.excess.rates.Spend("alice", excessBurst)
		for _, err := range out.Records(t.Context()) {
			require.NoError(t, err, "what the filter has inflated is inflated again for the client")
		}
		require.Equal(t, out.Next, out.Through())
	})
}

func TestAReaderThatInflatesNothingDoesNotWaitForWhatItsHolderOwes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30).For("alice")
		turns.excess.rates.Spend("alice", excessBurst+excessRate)
		var b record.Builder
		require.NoError(t, b.Add(record.Record{Value: make([]byte, 1000)}))
		batch, err := b.Finish(record.None)
		require.NoError(t, err)
		r := over(&Chunk{slow: newMetered(budget.NewPool(1<<30), nil, turns), Count: 1, Parts: [][]byte{batch}, Bytes: len(batch)})
		begun := time.Now()
		for range 100 {
			require.NoError(t, r.records(t.Context()))
		}
		require.Zero(t, time.Since(begun))
		require.True(t, turns.excess.rates.Owes("alice"))
	})
}

func TestReadersPayInTheOrderInWhichTheyCameHoweverOftenTheirWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30).For("mallory")
		turns.excess.rates.Spend("mallory", excessBurst+excessRate)
		begun := time.Now()
		first, second := newMetered(nil, nil, turns), newMetered(nil, nil, turns)
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, first.payments.pay(short), context.DeadlineExceeded)
		require.NoError(t, second.payments.pay(t.Context()))
		require.InDelta(t, float64(time.Second+2*time.Second*excessAhead/excessRate), float64(time.Since(begun)), 1e6)
		require.True(t, first.payments.next(), "it has not waited for its own")
		require.NoError(t, first.payments.pay(t.Context()))
		require.InDelta(t, float64(time.Second+2*time.Second*excessAhead/excessRate), float64(time.Since(begun)), 1e6, "the first had its place before")
		first.payments.end()
		second.payments.end()
		require.False(t, turns.excess.rates.Owes("mallory"))
		require.InDelta(t, float64(2*time.Second*excessAhead/excessRate), float64(turns.excess.rates.Reserve("mallory", 2*excessAhead+8<<20)), 1e6, "what was not used is given back")
	})
}

func TestAReaderThatHasToPayTooLongIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30).For("mallory")
		turns.excess.rates.Spend("mallory", excessBurst+10*excessRate)
		c := compressedChunk(t, turns, budget.NewPool(1<<30), 1, 1<<20, record.Gzip)
		c.slow.payments.setBy(time.Now().Add(5 * time.Second))
		begun := time.Now()
		var r *record.Refusal
		require.ErrorAs(t, over(c).records(t.Context()), &r)
		require.Equal(t, record.Busy, r.Reason)
		require.Equal(t, 5*time.Second, time.Since(begun), "and not at once: clients come again")
	})
}

func TestAShortReadOfACallerThatOwesPaysBeforeItsFirstChunk(t *testing.T) {
	turns := newTurns(1, 1<<30).For("mallory")
	short, long := newMetered(nil, nil, turns), newMetered(nil, nil, turns)
	short.payments.setBy(time.Now().Add(time.Minute))
	long.payments.setBy(time.Time{})
	require.False(t, short.payments.next(), "nothing is owed")
	turns.excess.rates.Spend("mallory", excessBurst+excessRate)
	short.payments.setBy(time.Now().Add(time.Minute))
	require.True(t, short.payments.next())
	require.False(t, long.payments.next(), "its first chunk may have nothing to inflate")
}

func TestAReaderGivesItsChunkUpWhileItsHolderOwesSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1<<30).For("mallory")
		turns.excess.rates.Spend("mallory", excessBurst+excessRate)
		for _, due := range []bool{false, true} {
			reads := budget.NewPool(1 << 20)
			r := &Reader{reader: new(runtime.Reader), slow: newMetered(reads, nil, turns)}
			held := reads.TryAcquire(1000)
			c := Chunk{Parts: [][]byte{{1}}, Release: func() { reads.Release(1000) }}
			r.slow.whole, r.slow.rest, r.slow.payments.due = c, c, due
			require.True(t, held)
			begun := time.Now()
			paid := make(chan error)
			go func() { paid <- r.pay(t.Context()) }()
			synctest.Wait()
			if !due {
				require.EqualValues(t, 1000, reads.Used(), "one that inflates nothing does not wait")
				require.NoError(t, <-paid)
				require.Zero(t, time.Since(begun))
				continue
			}
			require.Zero(t, reads.Used())
			require.NoError(t, <-paid)
			require.GreaterOrEqual(t, time.Since(begun), time.Second)
			require.Positive(t, r.slow.payments.ahead, "it inflates a batch then, whatever others owe")
		}
	})
}
