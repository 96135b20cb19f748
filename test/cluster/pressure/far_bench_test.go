package pressure

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/cluster"
)

// What distance costs those who append without waiting: one producer with its
// usual window, values of 2 KiB, as fast as the machine takes them, with a delay
// between two times without, in each iteration; through the same proxies.
//
//	go test -run - -bench Far -benchtime 3x ./test/cluster

func BenchmarkFarFollower(b *testing.B) {
	benchmarkDistance(b, func(c *cluster.Cluster, roundTrip time.Duration) {
		c.Delay("a", "c", roundTrip/2)
		c.Delay("b", "c", roundTrip/2)
	}, 140*time.Millisecond)
}

func BenchmarkFarNodes(b *testing.B) {
	benchmarkDistance(b, func(c *cluster.Cluster, roundTrip time.Duration) {
		c.Delay("a", "b", roundTrip/2)
		c.Delay("a", "c", roundTrip/2)
		c.Delay("b", "c", roundTrip/2)
	}, 70*time.Millisecond)
}

func benchmarkDistance(b *testing.B, delay func(c *cluster.Cluster, roundTrip time.Duration), roundTrip time.Duration) {
	c, _, _ := figureCluster(b)
	p := startPipeline(b, c)
	var near, far, ratios, late []float64
	for b.Loop() {
		at := func(d time.Duration) float64 {
			delay(c, d)
			time.Sleep(settle)
			return p.rate(phase)
		}
		before := at(0)
		f := at(roundTrip)
		late = append(late, 1000*float64(lag(b, c, "c"))/f)
		n := (before + at(0)) / 2 // a disk that becomes slower is no distance
		near, far, ratios = append(near, n), append(far, f), append(ratios, f/n)
	}
	delay(c, roundTrip)
	time.Sleep(settle)
	p.end()
	begin := time.Now()
	c.Await("all to have all", func(s *client.ClusterStatus) string {
		for _, r := range cluster.FindLog(s, figureLog).Replicas {
			if r.Lag > 0 {
				return r.Node + " lags"
			}
		}
		return ""
	})
	caughtUp := time.Since(begin)
	delay(c, 0)
	b.ReportMetric(0, "ns/op") // the time is chosen
	b.ReportMetric(median(near), "near/s")
	b.ReportMetric(median(far), "far/s")
	b.ReportMetric(median(ratios), "median-ratio")
	b.ReportMetric(median(late), "c-lag-ms")
	b.ReportMetric(milliseconds(caughtUp), "caught-up-ms")
	b.Logf("near %.0f/s, far %.0f/s, ratios %.2f, lag of c %.0f ms", near, far, ratios, late)
}

// lag is how many records a node has less than the leader, by its acknowledgements.
func lag(b *testing.B, c *cluster.Cluster, node string) int64 {
	s, err := c.Node("a").Client().Admin().ClusterStatus(context.Background())
	require.NoError(b, err)
	for _, r := range cluster.FindLog(&s, figureLog).Replicas {
		if r.Node == node {
			return r.Lag
		}
	}
	require.Fail(b, "no replica", "on node %s", node)
	return 0
}

// pipeline is one caller that never waits for an answer.
type pipeline struct {
	acked atomic.Int64
	end   func()
}

func startPipeline(b *testing.B, c *cluster.Cluster) *pipeline {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	producer, err := c.Client().Producer(ctx, figureLog, client.WithRequestTimeout(cluster.Patience))
	require.NoError(b, err)
	p := &pipeline{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer closeProducer(producer)
		value := make([]byte, figureBytes)
		for ctx.Err() == nil {
			err := producer.SendFunc(ctx, client.Record{Value: value}, func(_ int64, err error) {
				if err != nil {
					b.Errorf("append: %v", err)
				}
				p.acked.Add(1)
			})
			if err != nil && ctx.Err() == nil {
				b.Errorf("append: %v", err)
				return
			}
		}
	}()
	p.end = func() {
		stop()
		<-ended
	}
	b.Cleanup(p.end)
	return p
}

// rate of acknowledged records per second while d goes by.
func (p *pipeline) rate(d time.Duration) float64 {
	begin, before := time.Now(), p.acked.Load()
	time.Sleep(d)
	return float64(p.acked.Load()-before) / time.Since(begin).Seconds()
}
