package runtime

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/vfs"
)

// benchReplica runs a replica alone on a log on the disk of b.TempDir.
func benchReplica(b *testing.B, segmentBytes int64) *Replica {
	quiet := slog.New(slog.DiscardHandler)
	log, err := store.Create(vfs.OS(), b.TempDir()+"/log", store.Options{SegmentBytes: segmentBytes, Logger: quiet}, bootstrapOf(b, 1))
	require.NoError(b, err)
	r, err := Start(Options{ID: 1, Log: log, HardState: log.HardState(), Logger: quiet})
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, r.Close(context.Background()))
		require.NoError(b, log.Close())
	})
	require.NoError(b, r.AwaitLeaderReady(b.Context()))
	return r
}

// latencies are the times of appends, each of 2 KiB by one of 16 callers that
// wait for the answer, from now until stop is true.
func (r *Replica) latencies(b *testing.B, stop func() bool) (all []time.Duration) {
	const callers = 16
	var mu sync.Mutex
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			var own []time.Duration
			for !stop() {
				a := benchAppend(b, 2<<10)
				begin := time.Now()
				if refusal := r.answerTo(&core.Request{Append: a}).Refusal; refusal != nil {
					b.Error(refusal)
					return
				}
				own = append(own, time.Since(begin))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	running.Wait()
	return all
}

func benchAppend(b *testing.B, size int) *sequence.Append {
	var builder record.Builder
	builder.Reset(nil)
	if err := builder.Add(record.Record{Timestamp: 1, Value: make([]byte, size)}); err != nil {
		b.Error(err)
	}
	batch, err := builder.Finish(record.None)
	if err != nil {
		b.Error(err)
	}
	return &sequence.Append{ExpectedEnd: sequence.NoExpectation, Batches: []record.Batch{batch}, Records: 1, Bytes: len(batch)}
}

func p99(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)*99/100]
}

// compare reports the p99 of both, each round's ratio, and their median.
type compare struct{ with, without, ratios []float64 }

func (c *compare) add(b *testing.B, with, without []time.Duration) {
	x, y := p99(with).Seconds()*1000, p99(without).Seconds()*1000
	b.Logf("p99 %.2f ms of %d appends, without %.2f ms of %d: ratio %.2f", x, len(with), y, len(without), x/y)
	c.with, c.without, c.ratios = append(c.with, x), append(c.without, y), append(c.ratios, x/y)
}

func (c *compare) report(b *testing.B) {
	median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	b.ReportMetric(median(c.with), "p99-ms")
	b.ReportMetric(median(c.without), "p99-ms-without")
	b.ReportMetric(median(c.ratios), "p99-ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAppendsBesideATrim compares appends while 10,000 segments are being
// trimmed with appends just before and after. One round takes a minute or two
// and 3 GB of disk.
func BenchmarkAppendsBesideATrim(b *testing.B) {
	const segments = 10_000
	var c compare
	for range b.N {
		r := benchReplica(b, 256<<10)
		for range segments {
			require.Nil(b, r.answerTo(&core.Request{Append: benchAppend(b, 260<<10)}).Refusal)
		}
		for r.upkeep.pending() {
			time.Sleep(10 * time.Millisecond)
		}
		require.GreaterOrEqual(b, r.log.LastIndex(), uint64(segments)) // an entry a segment
		quiet := func() []time.Duration {
			end := time.Now().Add(5 * time.Second)
			return r.latencies(b, func() bool { return time.Now().After(end) })
		}
		without := quiet()
		_, end, _ := r.tail.Bounds()
		require.Nil(b, r.answerTo(&core.Request{Command: &record.Command{Kind: record.Trim, Offset: end}}).Refusal)
		begin := time.Now()
		with := r.latencies(b, func() bool { return r.log.FirstIndex() > segments*9/10 && !r.upkeep.pending() })
		b.Logf("%d segments were trimmed in %v", segments, time.Since(begin))
		c.add(b, with, append(without, quiet()...))
	}
	c.report(b)
}

// BenchmarkAppendsAtRolls compares appends to a log that begins a segment every 4
// MiB, so that rolls concern more than one append in a hundred, with a log that
// begins none.
func BenchmarkAppendsAtRolls(b *testing.B) {
	var c compare
	rolling, flat := benchReplica(b, 4<<20), benchReplica(b, 8<<30)
	phase := func(r *Replica) []time.Duration {
		end := time.Now().Add(4 * time.Second)
		return r.latencies(b, func() bool { return time.Now().After(end) })
	}
	phase(rolling)
	phase(flat)
	for range b.N {
		with := phase(rolling)
		c.add(b, with, phase(flat))
	}
	c.report(b)
}
