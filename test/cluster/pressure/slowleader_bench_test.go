package pressure

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/cluster"
)

// What a leader whose disk takes 20 writes per second costs those who append,
// until it has handed leadership over, and how long that takes: 16 callers, 400
// appends of 2 KiB per second.
//
//	go test -run - -bench LeaderSlowDisk -benchtime 5x ./test/cluster
func BenchmarkLeaderSlowDisk(b *testing.B) {
	c, leader, _ := figureCluster(b)
	w := startWaiters(b, c, 16, 400)
	watcher := c.Client().Admin()
	// leads asks one node only, so that looking costs little.
	leads := func() string {
		ctx, cancel := cluster.WithPatience()
		defer cancel()
		info, err := watcher.Info(ctx, figureLog)
		require.NoError(b, err)
		return info.Leader
	}
	var r rounds
	var terms []time.Duration
	var changes latencies // of appends around the handover
	for b.Loop() {
		time.Sleep(settle)
		var begin time.Time
		said := 0
		r.measure(w, forPhase, func() {
			leader.SetFlags("--fsync-delay", "50ms")
			leader.Restart()
			c.AwaitHealthy()
			lead(b, c, leader.Name())
			begin, said = time.Now(), len(leader.Log())
			time.Sleep(settle / 2) // what the change of leaders held up belongs to nobody
		}, func() {
			for !strings.Contains(leader.Log()[said:], "handing leadership over") && time.Since(begin) < cluster.Patience {
				time.Sleep(2 * time.Millisecond)
			}
		})
		change := w.during(func() {
			for leads() == leader.Address() && time.Since(begin) < cluster.Patience {
				time.Sleep(5 * time.Millisecond)
			}
			terms = append(terms, time.Since(begin))
			time.Sleep(settle)
		})
		changes = append(changes, change...)
		leader.SetFlags()
		leader.Restart()
		c.AwaitHealthy()
		lead(b, c, leader.Name())
	}
	w.end()
	r.report(b)
	b.ReportMetric(milliseconds(median(terms)), "handed-over-ms")
	b.ReportMetric(changes.quantile(1), "handover-max-ms")
	b.Logf("handed over after %v", terms)
}
