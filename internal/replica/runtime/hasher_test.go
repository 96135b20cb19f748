package runtime

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// A content that was hashed of damaged bytes would count as right for good, and the batches
// that all other replicas hold as forged.
func TestWhatIsDamagedInMemoryIsHashedAsItIsStored(t *testing.T) {
	const records = 20
	open := func() *digested {
		return openDigested(t, 1<<20, 1, func(stored segment.Log) segment.Log { return stored })
	}
	whole := open()
	whole.append(records)
	want, err := whole.Digest(t.Context(), records)
	require.NoError(t, err)
	require.NoError(t, whole.stored.Close())

	r := open()
	r.unread = true
	r.append(records)
	frames, ok := r.loop.tail.Read(nil, 7, 8, 1)
	require.True(t, ok)
	frames[0].Payload[5000] ^= 1
	r.unread = false
	r.round()
	r.append(1)                  // takes the contents along
	frames[0].Payload[5000] ^= 1 // who reads from now on gets the whole batch
	got, err := r.Digest(t.Context(), records)
	require.NoError(t, err)
	require.Equal(t, want.Root(), got.Root())
	require.NoError(t, r.stored.Close())
}

func TestWhatIsDamagedEverywhereIsNotHashed(t *testing.T) {
	r := openDigested(t, 1<<20, 1, func(stored segment.Log) segment.Log { return stored })
	r.unread = true
	r.append(3)
	frames, ok := r.loop.tail.Read(nil, 0, 3, math.MaxInt)
	require.True(t, ok)
	batches, err := contents(frames, 0)
	require.NoError(t, err)
	require.Len(t, batches, 3)
	frames[1].Payload[5000] ^= 1
	batches, err = contents(frames, 0)
	require.ErrorIs(t, err, errDamagedBatch)
	require.Empty(t, batches)
	require.NoError(t, r.stored.Close())
}

// BenchmarkContents is the work beside the loop for the digest: SHA-256 of each batch, and
// its checksum before that.
func BenchmarkContents(b *testing.B) {
	for _, size := range []int{2 << 10, 64 << 10} {
		var builder record.Builder
		builder.Reset(nil)
		require.NoError(b, builder.Add(record.Record{Value: make([]byte, size)}))
		batch, err := builder.Finish(record.None)
		require.NoError(b, err)
		for part, work := range map[string]func(){"content": func() { _ = batch.Content() }, "checksum": func() { _ = batch.Damaged() }} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, part), func(b *testing.B) {
				b.SetBytes(int64(len(batch)))
				for b.Loop() {
					work()
				}
			})
		}
	}
}
