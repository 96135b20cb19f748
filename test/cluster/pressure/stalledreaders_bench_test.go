package pressure

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/test/cluster"
)

// What 500 readers that take one frame and stop cost those who append: 300 logs of three replicas
// on three nodes of 512 MiB, one append of 64 KiB outstanding on each log, 15 seconds without the
// readers and 15 with them in each iteration. ratio is that of the appends in a second; waiting is
// how many logs had no append beside the readers.
//
//	go test -run - -bench StalledReaders -benchtime 3x ./test/cluster/pressure
func BenchmarkStalledReaders(b *testing.B) {
	const logs, readers, lasting = 300, 500, 15 * time.Second
	c := cluster.Start(b, cluster.Options{Nodes: 3, Flags: []string{"--memory", "512MiB"}})
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	name := func(i int) string { return fmt.Sprint("orders-", i) }
	all := c.Client()
	var appended [logs]atomic.Int64
	var appending sync.WaitGroup
	defer appending.Wait()
	defer stop()
	for i := range logs {
		_, err := all.Admin().CreateLog(ctx, name(i), client.LogConfig{Replicas: 3})
		require.NoError(b, err)
	}
	c.AwaitHealthy()
	for i := range logs {
		p, err := all.Producer(ctx, name(i))
		require.NoError(b, err)
		appending.Go(func() {
			for value := bytes.Repeat([]byte("x"), 64<<10); ctx.Err() == nil; {
				if _, err := p.Append(ctx, value); err != nil {
					return
				}
				appended[i].Add(1)
			}
		})
	}
	measure := func() (sum float64, waiting int) {
		var before [logs]int64
		for i := range logs {
			before[i] = appended[i].Load()
		}
		time.Sleep(lasting)
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
