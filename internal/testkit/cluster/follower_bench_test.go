package cluster

import (
	"testing"
	"time"
)

// What a follower that does not keep up costs those who append: 16 callers, 400
// appends of 2 KiB per second, first healthy and then not, in each iteration.
//
//	go test -run - -bench Follower -benchtime 5x ./internal/testkit/cluster

// phase is how long a state is measured in a round.
const phase = 3 * time.Second

func BenchmarkFollowerPaused(b *testing.B) {
	c, _, follower := figureCluster(b)
	w := startWaiters(b, c, 16, 400)
	var r rounds
	for b.Loop() {
		healthy := w.during(func() { time.Sleep(phase) })
		follower.Pause()
		paused := w.during(func() { time.Sleep(phase) })
		follower.Continue()
		c.AwaitHealthy()
		r.add(healthy, paused)
	}
	w.end()
	r.report(b)
}

// A disk that takes 20 writes per second.
func BenchmarkFollowerSlowDisk(b *testing.B) {
	c, _, follower := figureCluster(b)
	w := startWaiters(b, c, 16, 400)
	var r rounds
	for b.Loop() {
		healthy := w.during(func() { time.Sleep(phase) })
		follower.SetFlags("--fsync-delay", "50ms")
		follower.Restart()
		c.AwaitHealthy()
		slow := w.during(func() { time.Sleep(phase) })
		follower.SetFlags()
		follower.Restart()
		c.AwaitHealthy()
		r.add(healthy, slow)
	}
	w.end()
	r.report(b)
}
