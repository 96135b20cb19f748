package cluster

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const mib = 1 << 20

func never(uint64) bool { return false }

func loadsOf(logs []Led, load map[uint64]int64) map[uint64]int64 {
	nodes := map[uint64]int64{}
	for _, l := range logs {
		nodes[l.Leader] += load[l.Log] / mib
	}
	return nodes
}

func TestLeadersAreSwappedUntilNoNodeTakesMuchMoreThanItsShare(t *testing.T) {
	type loads = map[uint64]int64
	// Logs 1 to 6; two on each of three nodes, each able to lead all.
	even := [][]uint64{{1, 2, 3}, {1, 2, 3}, {2, 1, 3}, {2, 1, 3}, {3, 1, 2}, {3, 1, 2}}
	for _, row := range []struct {
		what  string
		rows  [][]uint64
		load  loads // MiB a second
		moves int
		after loads
	}{
		{"no load", even, nil, 0, loads{1: 0, 2: 0, 3: 0}},
		{"even", even, loads{1: 3, 3: 3, 5: 3}, 0, loads{1: 3, 2: 3, 3: 3}},
		{"two heavy ones on a node", even, loads{1: 10, 2: 10}, 2, loads{1: 10, 2: 10, 3: 0}},
		{"three heavy ones on two nodes", even, loads{1: 10, 2: 10, 3: 10}, 2, loads{1: 10, 2: 10, 3: 10}},
		{"one log is all the load", even, loads{1: 30}, 0, loads{1: 30, 2: 0, 3: 0}},
		{"nobody else is able", [][]uint64{{1}, {1}, {2}, {2}}, loads{1: 10, 2: 10}, 0, loads{1: 20, 2: 0}},
		{"one to a node that leads fewer", [][]uint64{{1, 2}, {1, 2}, {2, 1}}, loads{1: 10, 2: 9}, 1, loads{1: 9, 2: 10}},
		{"a little more than its share", even, loads{1: 11, 2: 1, 3: 10, 4: 1, 5: 10, 6: 1}, 0, loads{1: 12, 2: 11, 3: 11}},
	} {
		t.Run(row.what, func(t *testing.T) {
			logs, load := led(row.rows...), loads{}
			for log, n := range row.load {
				load[log] = n * mib
			}
			plan := SwapLeaders(logs, load, never)
			after := carryOut(logs, plan)
			require.Equal(t, row.after, loadsOf(after, load))
			require.Len(t, plan, row.moves)
			require.Empty(t, SwapLeaders(after, load, never), "nothing is moved twice")
			require.Empty(t, SpreadLeaders(after), "the numbers of logs stay even")
			require.Empty(t, SwapLeaders(logs, load, func(uint64) bool { return true }))
		})
	}
}

func TestASwapNeverMakesTheMostLoadedNodeWorse(t *testing.T) {
	better := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		var logs []Led
		load := map[uint64]int64{}
		for i := range 4 + r.IntN(20) {
			nodes := r.Perm(5)
			l := Led{Log: uint64(i + 1), Leader: uint64(nodes[0])}
			for _, node := range nodes[1:3] {
				l.Able = append(l.Able, uint64(node))
			}
			logs, load[l.Log] = append(logs, l), r.Int64N(20*mib)
		}
		logs = carryOut(logs, SpreadLeaders(logs))
		most := func(logs []Led) (most int64) {
			for _, n := range loadsOf(logs, load) {
				most = max(most, n)
			}
			return most
		}
		after, plan := logs, []Handover{{}}
		for rounds := 0; len(plan) > 0; rounds++ {
			require.Less(t, rounds, 100, "seed %d goes on for ever", seed)
			plan = SwapLeaders(after, load, never)
			after = carryOut(after, plan)
		}
		require.LessOrEqual(t, most(after), most(logs)+1, "seed %d", seed)
		if most(after) < most(logs) {
			better++
		}
		require.Empty(t, SpreadLeaders(after), "seed %d", seed)
	}
	require.Greater(t, better, 100)
}

func TestLeadersFollowALoadThatLasts(t *testing.T) {
	loaded := func(v Survey) Survey {
		for id, node := range v.Nodes {
			node.Load = map[uint64]int64{}
			for log := range node.Leads {
				if log <= 2 {
					node.Load[log] = 10 * mib
				}
			}
			v.Nodes[id] = node
		}
		return v
	}
	s := new(Spreader)
	leaders := []uint64{1, 1, 2, 2, 3, 3}
	plan := s.Plan(0, loaded(survey(minute, leaders...)))
	require.Len(t, plan, 2, "a heavy log and a light one change places")
	for _, h := range plan {
		require.Equal(t, leaders[h.Log-1], h.From)
		leaders[h.Log-1] = h.To
	}
	for now := int64(2_000); now < swapMillis; now += 2_000 {
		require.Empty(t, s.Plan(now, loaded(survey(minute+now, leaders...))))
	}
}
