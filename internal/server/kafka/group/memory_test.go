package group

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// held is what groups of so many members take in memory, and what is counted for them,
// in bytes for each member.
func held(groups, members int) (taken, counted int) {
	live := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	text := func(size int) string { return string(make([]byte, size)) }
	before := live()
	all := map[string]*Group{}
	for i := range groups {
		g := New()
		all[fmt.Sprintf("group-%d", i)] = g
		for k := range members {
			g.Join(0, Join{
				NewID: fmt.Sprintf("consumer-%s-%d", text(26), k), ClientID: text(8), Host: text(10), ProtocolType: "consumer",
				Protocols: []Protocol{{text(5), make([]byte, 40)}, {text(18), make([]byte, 60)}}, SessionMs: 45_000, RebalanceMs: 60_000,
			}, func(Joined) {})
		}
		g.Tick(InitialDelayMs)
		shares := map[string][]byte{}
		for _, m := range g.members {
			shares[m.id] = make([]byte, 60)
		}
		g.Sync(0, Sync{MemberID: g.leader, Generation: g.generation, Shares: shares}, func(Synced) {})
		counted += g.Bytes()
	}
	taken = live() - before
	runtime.KeepAlive(all)
	return taken / groups / members, counted / groups / members
}

var heldCases = []struct{ groups, members int }{{5_000, 1}, {500, 10}, {10, 1_000}}

// What is counted in the node's memory is what groups take, within a third.
func TestWhatGroupsTakeIsCounted(t *testing.T) {
	for _, c := range heldCases {
		taken, counted := held(c.groups, c.members)
		require.InEpsilon(t, taken, counted, 1./3, "%+v", c)
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, c := range heldCases {
		b.Run(fmt.Sprintf("members=%d", c.members), func(b *testing.B) {
			for b.Loop() {
				taken, counted := held(c.groups, c.members)
				b.ReportMetric(float64(taken), "B/member")
				b.ReportMetric(float64(counted), "counted-B/member")
			}
		})
	}
}
