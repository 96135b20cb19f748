package reading

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/replica/tail"
)

// An atomic entry is read in one piece, also where all the memory for reads is less: what is given back
// of it is what was taken.
func TestAChunkLargerThanAllMemoryForReadsGivesBackWhatItTook(t *testing.T) {
	t.Parallel()
	var b record.Builder
	require.NoError(t, b.Add(record.Record{Value: make([]byte, 1<<20)}))
	batch, err := b.Finish(record.None)
	require.NoError(t, err)
	for _, size := range []int64{8 << 20, 16 << 20, 64 << 20} {
		for _, batches := range []int{2, 20, 33} {
			t.Run(fmt.Sprintf("%d of %d MiB", batches, size>>20), func(t *testing.T) {
				t.Parallel()
				reads := budget.NewPool(size)
				end := record.Offset(batches)
				r := &Reader{reader: new(runtime.Reader), tail: new(tail.Tail), until: math.MaxInt64, next: end, slow: &metered{reads: reads}}
				r.tail.Publish(0, end+1, nil)
				f := r.slow
				var c Chunk
				for range batches {
					c.Parts, c.Bytes = append(c.Parts, batch), c.Bytes+len(batch)
				}
				c.Count, c.Release = batches, func() {}

				require.NoError(t, f.take(t.Context(), r))
				if !f.fits(c) { // there was less than the chunk, whose size is known now
					require.NoError(t, f.take(t.Context(), r))
					require.True(t, f.fits(c), "no more can be taken")
				}
				f.whole, f.rest = c, c
				for len(f.rest.Parts) > 0 {
					some, err := r.few()
					require.NoError(t, err)
					require.GreaterOrEqual(t, reads.Used(), int64(some.Bytes))
					some.Release()
					require.GreaterOrEqual(t, reads.Used(), int64(0), "more was given back than taken")
				}
				f.give()
				require.Zero(t, reads.Used())
			})
		}
	}
}
