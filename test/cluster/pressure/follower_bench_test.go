package pressure

import (
	"testing"
	"time"
)

// What a follower that does not keep up costs those who append: 16 callers, 400
// appends of 2 KiB per second, first healthy and then not, in each iteration.
//
//	go test -run - -bench Follower -benchtime 5x ./test/cluster

// phase is how long a state is measured in a round, and settle how long it has
// before: what waited has gone, and windows have found their size.
const (
	phase  = 3 * time.Second
	settle = time.Second
)

func BenchmarkFollowerPaused(b *testing.B) {
	c, _, follower := figureCluster(b)
	w := startWaiters(b, c, 16, 400)
	var r rounds
	for b.Loop() {
		time.Sleep(settle)
		r.measure(w, forPhase, follower.Pause, forPhase)
		follower.Continue()
		c.AwaitHealthy()
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
		time.Sleep(settle)
		r.measure(w, forPhase, func() {
			follower.SetFlags("--fsync-delay", "50ms")
			follower.Restart()
			c.AwaitHealthy()
			time.Sleep(settle)
		}, forPhase)
		follower.SetFlags()
		follower.Restart()
		c.AwaitHealthy()
	}
	w.end()
	r.report(b)
}

func forPhase() { time.Sleep(phase) }
