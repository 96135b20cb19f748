package runtime

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// A content that was hashed of damaged bytes would count as right for good, and the batches
// that all other replicas hold as forged; at an offset that was damaged it would be in an entry that no
// replica can apply.
func TestWhatIsDamagedInMemoryIsHashedAsItIsStored(t *testing.T) {
	const records, damaged = 4, 2
	open := func() *digested {
		return openDigested(t, 1<<20, 1, func(stored segment.Log) segment.Log { return stored })
	}
	whole := open()
	whole.append(records)
	want, err := whole.Digest(t.Context(), records)
	require.NoError(t, err)
	require.NoError(t, whole.stored.Close())

	r := open()
	places := []int{5000} // of a batch, and all of what comes before it: the head of the entry, and its metadata
	for i := range 40 + 48 {
		places = append(places, i)
	}
	for _, place := range places {
		r.unread = true
		from := r.core.Hashing.Digest().End
		r.append(records)
		frames, ok := r.loop.tail.Read(nil, from+damaged, from+damaged+1, 1)
		require.True(t, ok)
		frames[0].Payload[place] ^= 1 << (place % 8)
		r.unread = false
		r.round()
		r.append(1)                                  // takes the contents along
		frames[0].Payload[place] ^= 1 << (place % 8) // who reads from now on gets the whole batch
		require.Nil(t, r.Status().Failed, "byte %d", place)
		got := r.core.Hashing.Digest()
		require.GreaterOrEqual(t, got.Covered, from+records, "byte %d", place)
		require.Zero(t, got.From, "byte %d: it began anew", place)
		if from == 0 {
			got, err := r.Digest(t.Context(), records)
			require.NoError(t, err)
			require.Equal(t, want.Root(), got.Root())
		}
	}
	// Who reads what is stored gets the same digest.
	end := r.core.Hashing.Digest().Covered
	got, err := r.Digest(t.Context(), end)
	require.NoError(t, err)
	require.Equal(t, treeOfStored(t, r, end), got.Root())
	require.NoError(t, r.stored.Close())
}

// treeOfStored is the root over the batches that are stored below an offset.
func treeOfStored(t *testing.T, r *digested, end record.Offset) digest.Hash {
	cursor, err := r.stored.NewCursor(0)
	require.NoError(t, err)
	defer cursor.Close()
	w := digest.NewWalker(&digest.Tree{}, false, end, nil)
	for w.End < end {
		frames, err := cursor.Next(end, math.MaxInt)
		require.NoError(t, err)
		require.NotEmpty(t, frames)
		for i := range frames {
			if len(frames[i].Payload) == 0 {
				continue // no entry of the log's own
			}
			e, err := record.ParseEntry(frames[i].Payload)
			require.NoError(t, err)
			require.Empty(t, w.Add(&e, frames[i].Index))
		}
	}
	tree, err := w.Finish()
	require.NoError(t, err)
	return tree.Root()
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
	require.ErrorIs(t, err, errDamagedEntry)
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
