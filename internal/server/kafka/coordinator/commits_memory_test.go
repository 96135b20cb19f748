package coordinator

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// heldByCommits is what groups with so many offsets take in memory, and what is counted
// for them, in bytes for each offset.
func heldByCommits(groups, offsets int) (taken, counted int) {
	live := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := live()
	s := newCommits()
	for i := range groups {
		c := offsetChange{Group: fmt.Sprintf("group-%d", i), Members: &groupMembers{Kind: "consumer"}}
		for k := range offsets {
			c.Commits = append(c.Commits, offsetCommit{Topic: fmt.Sprintf("topic-of-some-length-%d", k/8), Partition: int32(k % 8)})
		}
		s.fold(&c)
	}
	taken = live() - before
	runtime.KeepAlive(s)
	return taken / groups / offsets, s.bytes / groups / offsets
}

var commitCases = []struct{ groups, offsets int }{{20_000, 1}, {2_000, 10}, {200, 100}, {2, 10_000}}

// What is counted in the node's memory is what commits take, within a half: a map has
// room for up to twice what is in it.
func TestWhatCommitsTakeIsCounted(t *testing.T) {
	for _, c := range commitCases {
		taken, counted := heldByCommits(c.groups, c.offsets)
		require.InEpsilon(t, taken, counted, 1./2, "%+v", c)
	}
	s := history(commitOf("a", 5, 1), commitOf("b", 5, 2), commitOf("a", 6, 3))
	require.NotZero(t, s.bytes)
	s.fold(&offsetChange{Group: "a", Delete: true})
	s.fold(&offsetChange{Group: "b", Delete: true})
	require.Zero(t, s.bytes)
}

func BenchmarkGroupMemory(b *testing.B) {
	for _, c := range commitCases {
		b.Run(fmt.Sprintf("offsets=%d", c.offsets), func(b *testing.B) {
			for b.Loop() {
				taken, counted := heldByCommits(c.groups, c.offsets)
				b.ReportMetric(float64(taken), "B/offset")
				b.ReportMetric(float64(counted), "counted-B/offset")
			}
		})
	}
}
