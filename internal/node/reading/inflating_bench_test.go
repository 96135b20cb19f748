package reading

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
)

// benchChunk is a chunk of a compressed batch of about so many bytes of JSON, a few hundred bytes a record.
func benchChunk(b testing.TB, bytes int, codec record.Codec) (c *Chunk, stored, inflated int) {
	b.Helper()
	source := rand.New(rand.NewPCG(1, 1))
	var builder record.Builder
	count := 0
	for inflated < bytes {
		value := fmt.Appendf(nil, `{"order":%d,"customer":"customer-%d","state":"delivered","items":[{"article":"article-%d","count":%d,"price":%d.%02d}],"at":"2026-11-28T15:%02d:%02dZ"}`,
			source.Uint32(), source.IntN(1000), source.IntN(100), source.IntN(9), source.IntN(100), source.IntN(100), source.IntN(60), source.IntN(60))
		require.NoError(b, builder.Add(record.Record{Timestamp: int64(count), Value: value}))
		inflated += len(value)
		count++
	}
	batch, err := builder.Finish(codec)
	require.NoError(b, err)
	turns := newTurns(1, 1<<30).For("alice")
	return &Chunk{slow: &metered{reads: budget.NewPool(1 << 30), turns: turns}, Count: count, Parts: [][]byte{batch}}, len(batch), inflated
}

// BenchmarkRecordsOfCompressedBatches reads single records of batches of JSON; "times" is how much a batch grows.
func BenchmarkRecordsOfCompressedBatches(b *testing.B) {
	for _, codec := range []record.Codec{record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		for _, bytes := range []int{1 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%v/%dKiB", codec, bytes>>10), func(b *testing.B) {
				c, stored, inflated := benchChunk(b, bytes, codec)
				b.SetBytes(int64(inflated))
				b.ReportAllocs()
				for b.Loop() {
					for _, err := range c.Records(b.Context()) {
						if err != nil {
							b.Fatal(err)
						}
					}
					c.Taken()
				}
				b.ReportMetric(float64(inflated)/float64(stored), "times")
			})
		}
	}
}
