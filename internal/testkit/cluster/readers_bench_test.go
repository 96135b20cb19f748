package cluster

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// What four readers that boot from followers, each from the start of the log,
// again and again and as fast as they can, cost those who append: 16 callers,
// 400 appends of 2 KiB per second, without and with readers in each iteration.
//
//	go test -run - -bench ReadersBoot -benchtime 5x ./internal/testkit/cluster
func BenchmarkReadersBoot(b *testing.B) {
	c, _, _ := figureCluster(b)
	fill(b, c, 1<<30)
	w := startWaiters(b, c, 16, 400)
	var r rounds
	var read atomic.Int64
	busy := time.Duration(0)
	for b.Loop() {
		quiet := w.during(func() { time.Sleep(phase) })
		ctx, stop := context.WithCancel(context.Background())
		var reading sync.WaitGroup
		for range 4 {
			reading.Go(func() {
				for ctx.Err() == nil {
					if err := boot(ctx, c.Addresses(), &read); err != nil && ctx.Err() == nil {
						b.Errorf("read: %v", err)
						return
					}
				}
			})
		}
		begin := time.Now()
		booting := w.during(func() { time.Sleep(phase) })
		busy += time.Since(begin)
		stop()
		reading.Wait()
		r.add(quiet, booting)
	}
	w.end()
	r.report(b)
	b.ReportMetric(float64(read.Load())/(1<<20)/busy.Seconds(), "read-MiB/s")
}

// boot reads the log from a follower to its end.
func boot(ctx context.Context, addresses []string, read *atomic.Int64) error {
	all, err := client.Dial(addresses)
	if err != nil {
		return err
	}
	defer all.Close()
	r, err := all.Reader(ctx, figureLog, client.PreferFollower())
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		batch, err := r.NextBatch(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		read.Add(int64(len(batch)) * figureBytes)
	}
}

// fill appends so many bytes.
func fill(b *testing.B, c *Cluster, bytes int) {
	b.Helper()
	p := startPipeline(b, c)
	deadline := time.Now().Add(patience)
	for p.acked.Load() < int64(bytes/figureBytes) {
		require.True(b, time.Now().Before(deadline), "the log does not fill")
		time.Sleep(10 * time.Millisecond)
	}
	p.end()
	c.AwaitHealthy()
}
