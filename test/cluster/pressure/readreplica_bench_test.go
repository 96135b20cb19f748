package pressure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/cluster"
)

// What a read replica that copies the log from its beginning costs those who append: 16 callers,
// 400 appends of 2 KiB per second, before it comes and until it has all.
//
//	go test -run - -bench ReadReplicaCatchesUp -benchtime 5x ./test/cluster/pressure
func BenchmarkReadReplicaCatchesUp(b *testing.B) {
	c := cluster.Start(b, cluster.Options{Nodes: 4})
	const label = "dc=far"
	c.Node("d").SetFlags("--label", label)
	c.Node("d").Restart()
	c.AwaitHealthy()
	rule := client.PlacementRule{VotersNotIn: []string{label}}
	c.CreateLog(figureLog, client.LogConfig{Rule: &rule})
	lead(b, c, "a")
	fill(b, c, readBytes)
	admin := c.Client().Admin()
	readers := func(count int) {
		b.Helper()
		ctx, cancel := cluster.WithPatience()
		defer cancel()
		if rule.ReadReplicas = nil; count > 0 {
			rule.ReadReplicas = []client.ReadReplicas{{Label: label, Count: count}}
		}
		info, err := admin.Info(ctx, figureLog)
		require.NoError(b, err)
		info.Config.Rule = &rule
		_, err = admin.ConfigureLog(ctx, figureLog, info.Config)
		require.NoError(b, err)
	}
	w := startWaiters(b, c, 16, 400)
	var r rounds
	var copied []time.Duration
	for b.Loop() {
		time.Sleep(settle)
		r.measure(w, forPhase, func() { readers(1) }, func() {
			began := time.Now()
			c.Await("the read replica to have all", func(s *client.ClusterStatus) string {
				for _, one := range cluster.FindLog(s, figureLog).Replicas {
					if one.Role == client.ReadReplica && one.State == client.Replicating && one.Lag < 100 {
						return ""
					}
				}
				return "it lags"
			})
			copied = append(copied, time.Since(began))
		})
		readers(0)
		c.AwaitHealthy()
	}
	w.end()
	r.report(b)
	b.ReportMetric(milliseconds(median(copied)), "copied-ms")
}
