package pressure

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/test/cluster"
)

var (
	stalledLogs    = flag.Int("stalled.logs", 300, "how many logs BenchmarkStalledReaders has")
	stalledReaders = flag.Int("stalled.readers", 500, "how many readers take nothing there")
)

const (
	// stalledBytes is how much is appended at most, all iterations together. Each replica keeps about stalledKept of it
	// and some segments of 1 MiB.
	stalledBytes = 8 << 30
	stalledKept  = 1 << 20
	// stalledFree is how much has to be free on the disk before each phase, in which the nodes write less if nothing is trimmed.
	stalledFree = 4 << 30
)

// What 500 readers that take one frame and stop cost those who append: 300 logs of three replicas
// on three nodes of 512 MiB, one append of 64 KiB outstanding on each log, 15 seconds without the
// readers and 15 with them in each iteration. ratio is that of the appends in a second; waiting is
// how many logs had no append beside the readers.
//
//	go test ./test/cluster/pressure -run - -bench StalledReaders -benchtime 2x
func BenchmarkStalledReaders(b *testing.B) {
	const lasting = 15 * time.Second
	logs, readers := *stalledLogs, *stalledReaders
	directory := b.TempDir()
	hasRoom := func() {
		var disk unix.Statfs_t
		require.NoError(b, unix.Statfs(directory, &disk))
		require.GreaterOrEqual(b, int64(disk.Bavail)*int64(disk.Bsize), int64(stalledFree), "bytes free; TMPDIR names another disk")
	}
	hasRoom()
	c := cluster.Start(b, cluster.Options{Nodes: 3, Flags: []string{"--memory", "512MiB", "--segment-size", "1MiB"}})
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	name := func(i int) string { return fmt.Sprint("orders-", i) }
	all := c.Client()
	appended := make([]atomic.Int64, logs)
	var bytesLeft atomic.Int64
	bytesLeft.Store(stalledBytes)
	var appending sync.WaitGroup
	defer appending.Wait()
	defer stop()
	for i := range logs {
		_, err := all.Admin().CreateLog(ctx, name(i), client.LogConfig{Replicas: 3, RetentionBytes: stalledKept})
		require.NoError(b, err)
	}
	c.AwaitHealthy()
	for i := range logs {
		p, err := all.Producer(ctx, name(i))
		require.NoError(b, err)
		appending.Go(func() {
			defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()
			for value := bytes.Repeat([]byte("x"), 64<<10); bytesLeft.Add(-int64(len(value))) >= 0; {
				if _, err := p.Append(ctx, value); err != nil {
					return
				}
				appended[i].Add(1)
			}
		})
	}
	measure := func() (sum float64, waiting int) {
		hasRoom()
		before := make([]int64, logs)
		for i := range logs {
			before[i] = appended[i].Load()
		}
		time.Sleep(lasting)
		require.Positive(b, bytesLeft.Load(), "all that may be stored was appended: take fewer iterations")
		for i := range logs {
			n := appended[i].Load() - before[i]
			if sum += float64(n); n == 0 {
				waiting++
			}
		}
		return sum / lasting.Seconds(), waiting
	}
	time.Sleep(settle)
	var without, with []float64
	none := 0
	for b.Loop() {
		alone, _ := measure()
		reading, leave := context.WithCancel(ctx)
		conns := make([]*grpc.ClientConn, 0, 10)
		for i := range cap(conns) {
			conn, err := grpc.NewClient(c.Nodes()[i%3].Address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStaticConnWindowSize(64<<20))
			require.NoError(b, err)
			conns = append(conns, conn)
		}
		for i := range readers {
			stream, err := strandlinev1.NewLogServiceClient(conns[i%len(conns)]).Read(reading, &strandlinev1.ReadRequest{Log: name(i % logs)})
			require.NoError(b, err)
			_, err = stream.Recv()
			require.NoError(b, err)
		}
		beside, waiting := measure()
		without, with, none = append(without, alone), append(with, beside), max(none, waiting)
		leave()
		for _, conn := range conns {
			require.NoError(b, conn.Close())
		}
	}
	b.ReportMetric(median(without), "appends/s")
	b.ReportMetric(median(with), "beside/s")
	b.ReportMetric(median(with)/median(without), "ratio")
	b.ReportMetric(float64(none), "waiting")
}
