package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a leader whose disk takes 20 writes per second costs those who append,
// until it has handed leadership over, and how long that takes: 16 callers, 400
// appends of 2 KiB per second.
//
//	go test -run - -bench LeaderSlowDisk -benchtime 5x ./internal/testkit/cluster
func BenchmarkLeaderSlowDisk(b *testing.B) {
	c, leader, _ := figureCluster(b)
	w := startWaiters(b, c, 16, 400)
	watcher := c.Client().Admin()
	// leads asks one node only, so that looking costs little.
	leads := func() string {
		ctx, cancel := withPatience()
		defer cancel()
		info, err := watcher.Info(ctx, figureLog)
		require.NoError(b, err)
		return info.Leader
	}
	var r rounds
	var terms []time.Duration
	for b.Loop() {
		healthy := w.during(func() { time.Sleep(phase) })
		leader.SetFlags("--fsync-delay", "50ms")
		leader.Restart()
		c.AwaitHealthy()
		c.lead(leader.Name())
		begin := time.Now()
		// The answers that the change of leaders held up belong to nobody.
		time.Sleep(500 * time.Millisecond)
		slow := w.during(func() {
			for leads() == leader.Address() && time.Since(begin) < patience {
				time.Sleep(20 * time.Millisecond)
			}
		})
		terms = append(terms, time.Since(begin))
		leader.SetFlags()
		leader.Restart()
		c.AwaitHealthy()
		c.lead(leader.Name())
		time.Sleep(500 * time.Millisecond)
		r.add(healthy, slow)
	}
	w.end()
	r.report(b)
	b.ReportMetric(milliseconds(median(terms)), "handed-over-ms")
	b.Logf("handed over after %v", terms)
}
