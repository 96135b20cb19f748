package pressure

import (
	"slices"
	"testing"
	"time"

	"strandline.dev/client"
	"strandline.dev/test/cluster"
)

// The gap without acks that clients see when the leader goes, one time in each
// iteration: go test -run - -bench Leader -benchtime 50x

func BenchmarkLeaderKilled(b *testing.B) {
	benchmarkGap(b, func(_ *cluster.Cluster, leader *cluster.Node) {
		leader.Kill()
	})
}

func BenchmarkLeaderStopped(b *testing.B) {
	benchmarkGap(b, func(_ *cluster.Cluster, leader *cluster.Node) {
		leader.Stop()
	})
}

func BenchmarkLeaderPaused(b *testing.B) {
	benchmarkGap(b, func(_ *cluster.Cluster, leader *cluster.Node) {
		leader.Pause()
	})
}

func BenchmarkLeaderCutOff(b *testing.B) {
	benchmarkGap(b, func(c *cluster.Cluster, leader *cluster.Node) {
		c.Isolate(leader.Name())
	})
}

func benchmarkGap(b *testing.B, fault func(*cluster.Cluster, *cluster.Node)) {
	c := cluster.Start(b, cluster.Options{Nodes: 3})
	c.CreateLog("orders", client.LogConfig{})
	l := c.Load(cluster.LoadOptions{Log: "orders"})
	var gaps []time.Duration
	for b.Loop() {
		leader := c.Node(c.AwaitLeader("orders"))
		l.Await(200)
		l.BeginGap()
		fault(c, leader)
		c.AwaitLeader("orders", leader.Name())
		l.Await(200)
		gaps = append(gaps, l.Gap())
		c.Heal()
		leader.Continue()
		if !leader.Running() {
			leader.Start()
		}
		c.AwaitHealthy()
	}
	l.Verify()
	slices.Sort(gaps)
	b.ReportMetric(0, "ns/op") // the work around the gap
	b.ReportMetric(milliseconds(gaps[len(gaps)/2]), "p50-ms")
	b.ReportMetric(milliseconds(gaps[len(gaps)*99/100]), "p99-ms")
	b.ReportMetric(milliseconds(gaps[len(gaps)-1]), "max-ms")
	b.ReportMetric(float64(l.Stop().FailedCalls()), "failed-calls")
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
