package pressure

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/cluster"
)

// readBytes is how much there is to read at first.
const readBytes = 256 << 20

// What four readers that boot from followers, each in a process of its own, from the start of the log,
// again and again and as fast as they can, cost those who append: 16 callers,
// 400 appends of 2 KiB per second, without and with readers in each iteration.
//
// With all on two cores the readers' own work, which is that of other machines,
// comes before the appends' as often as not. With "giving-way" it does not: then
// what is left is what serving them costs.
//
//	go test -run - -bench ReadersBoot -benchtime 5x ./test/cluster
func BenchmarkReadersBoot(b *testing.B) {
	b.Run("equal", func(b *testing.B) { benchmarkReaders(b) })
	b.Run("giving-way", func(b *testing.B) { benchmarkReaders(b, "nice", "-n", "19") })
}

// benchmarkReaders runs the readers by the command in front of theirs, if any.
func benchmarkReaders(b *testing.B, by ...string) {
	c, _, _ := figureCluster(b)
	fill(b, c, readBytes)
	w := startWaiters(b, c, 16, 400)
	var r rounds
	var read counted
	during := int64(0) // of bytes, while it was measured
	for b.Loop() {
		ctx, stop := context.WithCancel(context.Background())
		var reading sync.WaitGroup
		time.Sleep(settle)
		r.measure(w, forPhase, func() {
			for range 4 {
				reading.Go(func() { bootAgainAndAgain(ctx, b, c, by, &read) })
			}
			time.Sleep(settle)
		}, func() {
			before := read.bytes.Load()
			forPhase()
			during += read.bytes.Load() - before
		})
		stop()
		reading.Wait()
	}
	w.end()
	r.report(b)
	b.ReportMetric(float64(during>>20)/(float64(len(r.ratios))*phase.Seconds()), "read-MiB/s")
}

// counted is where readers print to.
type counted struct{ bytes atomic.Int64 }

func (c *counted) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return len(p), nil
}

func bootAgainAndAgain(ctx context.Context, b *testing.B, c *cluster.Cluster, by []string, read *counted) {
	for ctx.Err() == nil {
		if err := boot(ctx, c, by, read); err != nil {
			b.Errorf("read: %v", err)
			return
		}
	}
}

// boot reads the log from a follower to its end, or until ctx ends, in a process
// of its own.
func boot(ctx context.Context, c *cluster.Cluster, by []string, read *counted) error {
	err := c.RunBy(ctx, by, read, "read", figureLog, "--from-follower", "-o", "raw", "--server", strings.Join(c.Addresses(), ","))
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// fill appends so many bytes.
func fill(b *testing.B, c *cluster.Cluster, bytes int) {
	b.Helper()
	p := startPipeline(b, c)
	deadline := time.Now().Add(cluster.Patience)
	for p.acked.Load() < int64(bytes/figureBytes) {
		require.True(b, time.Now().Before(deadline), "the log does not fill")
		time.Sleep(10 * time.Millisecond)
	}
	p.end()
	c.AwaitHealthy()
}
