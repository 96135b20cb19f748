package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// led makes logs 1, 2, ... of rows "leader able able".
func led(rows ...[]uint64) (logs []Led) {
	for i, row := range rows {
		logs = append(logs, Led{Log: uint64(i + 1), Leader: row[0], Able: row[1:]})
	}
	return logs
}

func times(n int, row ...uint64) (rows [][]uint64) {
	for range n {
		rows = append(rows, row)
	}
	return rows
}

func carryOut(logs []Led, plan []Handover) (after []Led) {
	for _, l := range logs {
		for _, h := range plan {
			if h.Log == l.Log {
				able := []uint64{h.From}
				for _, node := range l.Able {
					if node != h.To {
						able = append(able, node)
					}
				}
				l = Led{l.Log, h.To, able}
			}
		}
		after = append(after, l)
	}
	return after
}

func counts(logs []Led) map[uint64]int {
	c := map[uint64]int{}
	for _, l := range logs {
		c[l.Leader]++
	}
	return c
}

func TestLeadersAreSpreadAsEvenlyAsTheReplicasAllow(t *testing.T) {
	concat := func(parts ...[][]uint64) (rows [][]uint64) {
		for _, p := range parts {
			rows = append(rows, p...)
		}
		return rows
	}
	for name, row := range map[string]struct {
		logs  []Led
		moves int
		after map[uint64]int
	}{
		"nothing":                  {nil, 0, map[uint64]int{}},
		"one log":                  {led(times(1, 1, 2, 3)...), 0, map[uint64]int{1: 1}},
		"two logs on one node":     {led(times(2, 1, 2, 3)...), 1, map[uint64]int{1: 1, 2: 1}},
		"even":                     {led(concat(times(2, 1, 2, 3), times(2, 2, 1, 3), times(2, 3, 1, 2))...), 0, map[uint64]int{1: 2, 2: 2, 3: 2}},
		"even but for one":         {led(concat(times(3, 1, 2, 3), times(2, 2, 1, 3), times(2, 3, 1, 2))...), 0, map[uint64]int{1: 3, 2: 2, 3: 2}},
		"a node came back":         {led(concat(times(30, 1, 2, 3), times(30, 2, 1, 3))...), 20, map[uint64]int{1: 20, 2: 20, 3: 20}},
		"nobody else is able":      {led(times(5, 1)...), 0, map[uint64]int{1: 5}},
		"by way of another node":   {led(concat(times(3, 1, 2), times(2, 2, 3), times(1, 3))...), 2, map[uint64]int{1: 2, 2: 2, 3: 2}},
		"replicas on two of three": {led(concat(times(4, 1, 2), times(4, 3, 1))...), 3, map[uint64]int{1: 3, 2: 2, 3: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			plan := SpreadLeaders(row.logs)
			after := carryOut(row.logs, plan)
			require.Equal(t, row.after, counts(after))
			require.Len(t, plan, row.moves)
			require.Empty(t, SpreadLeaders(after), "nothing is moved twice")
		})
	}
}

// Against every distribution that there is of a few logs.
func TestNoDistributionIsMoreEvenThanThePlanned(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var logs []Led
		for i := range 1 + r.IntN(6) {
			nodes := r.Perm(4)[:1+r.IntN(4)]
			l := Led{Log: uint64(i + 1), Leader: uint64(nodes[0])}
			for _, node := range nodes[1:] {
				l.Able = append(l.Able, uint64(node))
			}
			logs = append(logs, l)
		}
		after := carryOut(logs, SpreadLeaders(logs))
		require.Equal(t, fewest(logs, map[uint64]int{}), squares(counts(after)), "seed %d: %v", seed, logs)
		require.Empty(t, SpreadLeaders(after), "seed %d", seed)
	}
}

func squares(counts map[uint64]int) (sum int) {
	for _, n := range counts {
		sum += n * n
	}
	return sum
}

func fewest(logs []Led, counts map[uint64]int) int {
	if len(logs) == 0 {
		return squares(counts)
	}
	best := -1
	for _, node := range append([]uint64{logs[0].Leader}, logs[0].Able...) {
		counts[node]++
		if sum := fewest(logs[1:], counts); best < 0 || sum < best {
			best = sum
		}
		counts[node]--
	}
	return best
}

func TestManyLogsArePlannedInOneGo(t *testing.T) {
	logs := led(append(append(times(565, 1, 2, 3), times(535, 2, 1, 3)...), []uint64{3, 1, 2})...)
	after := counts(carryOut(logs, SpreadLeaders(logs)))
	require.Equal(t, map[uint64]int{1: 367, 2: 367, 3: 367}, after)
}

const minute = 60_000 // ms

// six logs on three nodes, the leaders of which are given.
func survey(up int64, leaders ...uint64) Survey {
	v := Survey{Nodes: map[uint64]Surveyed{}, State: members(3)}
	for node := uint64(1); node <= 3; node++ {
		v.Nodes[node] = Surveyed{Up: up, Leads: map[uint64][]uint64{}, Follows: map[uint64]bool{}}
	}
	for i, leader := range leaders {
		l := Log{ID: uint64(i + 1), Name: fmt.Sprint(i + 1)}
		for node := uint64(1); node <= 3; node++ {
			l.Replicas = append(l.Replicas, Replica{ID: 10*l.ID + node, Node: node})
			if node == leader {
				v.Nodes[node].Leads[l.ID] = []uint64{10*l.ID + 1, 10*l.ID + 2, 10*l.ID + 3}
			} else {
				v.Nodes[node].Follows[l.ID] = true
			}
		}
		v.State.Logs[l.Name] = l
	}
	return v
}

func change(v Survey, node uint64, how func(*Surveyed)) Survey {
	n := v.Nodes[node]
	how(&n)
	v.Nodes[node] = n
	return v
}

func TestOnlyANodeThatIsFitAndSettledIsGivenLeaders(t *testing.T) {
	for name, row := range map[string]struct {
		survey Survey
		to     map[uint64]int
	}{
		"all are":            {survey(minute, 1, 1, 1, 2, 2, 2), map[uint64]int{3: 2}},
		"it has just begun":  {change(survey(minute, 1, 1, 1, 2, 2, 2), 3, func(n *Surveyed) { n.Up = SettleMillis - 1 }), nil},
		"it is unfit":        {change(survey(minute, 1, 1, 1, 2, 2, 2), 3, func(n *Surveyed) { n.Unfit = true }), nil},
		"it follows nobody":  {change(survey(minute, 1, 1, 1, 2, 2, 2), 3, func(n *Surveyed) { n.Follows = nil }), nil},
		"it does not answer": {withoutNode(survey(minute, 1, 1, 1, 1, 2, 2), 3), map[uint64]int{2: 1}},
		"it has no vote": {change(survey(minute, 1, 1, 1, 1, 1, 1), 1, func(n *Surveyed) {
			for log := range n.Leads {
				n.Leads[log] = []uint64{10*log + 1, 10*log + 2}
			}
		}), map[uint64]int{2: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			var to map[uint64]int
			for _, h := range new(Spreader).Plan(0, row.survey) {
				if to == nil {
					to = map[uint64]int{}
				}
				to[h.To]++
			}
			require.Equal(t, row.to, to)
		})
	}
}

func withoutNode(v Survey, node uint64) Survey {
	delete(v.Nodes, node)
	return v
}

// A node whose disk is slow hands over what it is given.
func TestALogIsNotGivenAgainToANodeThatDidNotKeepIt(t *testing.T) {
	s := new(Spreader)
	leaders := []uint64{1, 1, 1, 2, 2, 2}
	up, given := int64(minute), 0
	for now := int64(0); now < strikeMillis; now += 5_000 {
		plan := s.Plan(now, survey(up+now, leaders...))
		for _, h := range plan {
			require.Equal(t, uint64(3), h.To)
			given++ // and 3 hands it back before the next plan
		}
	}
	require.GreaterOrEqual(t, given, 2)
	require.LessOrEqual(t, given, 4, "after three failures it is given nothing")
	require.NotEmpty(t, s.Plan(2*strikeMillis, survey(up+2*strikeMillis, leaders...)), "but after a while again")
}

func TestANodeThatWasRestartedIsGivenItsLogsAgain(t *testing.T) {
	s := new(Spreader)
	require.Len(t, s.Plan(0, survey(minute, 1, 1, 1, 2, 2, 2)), 2)
	require.Empty(t, s.Plan(5_000, survey(minute+5_000, 3, 1, 1, 3, 2, 2)))
	// It restarts, and the others lead again.
	later := change(survey(2*minute, 1, 1, 1, 2, 2, 2), 3, func(n *Surveyed) { n.Up = 10_000 })
	require.Len(t, s.Plan(minute, later), 2)
}

// Nodes answer one after the other: the first look finds the logs elsewhere and the node well.
func TestANodeThatStopsWhileItIsLookedAtIsGivenItsLogsAgain(t *testing.T) {
	stopping := func(v Survey) Survey {
		return change(v, 3, func(n *Surveyed) { n.Unfit, n.Stopping = true, true })
	}
	for what, second := range map[string]func(Survey) Survey{
		"it stops": stopping, "it is down": func(v Survey) Survey { return withoutNode(v, 3) },
	} {
		t.Run(what, func(t *testing.T) {
			s, began := new(Spreader), int64(-minute)
			look := func(now int64, see func(Survey) Survey, leaders ...uint64) []Handover {
				return s.Plan(now, see(change(survey(minute+now, leaders...), 3, func(n *Surveyed) { n.Up = now - began })))
			}
			well := func(v Survey) Survey { return v }
			without := []uint64{1, 1, 1, 2, 2, 2}
			require.Len(t, look(0, well, without...), 2)
			require.Empty(t, look(2_000, well, 3, 1, 1, 3, 2, 2))
			for _, h := range look(4_000, well, without...) {
				require.NotContains(t, []uint64{1, 4}, h.Log, "not before it is known why it lost it")
				s.Refused(h)
			}
			require.Empty(t, look(6_000, second, without...))
			began = 8_000
			require.Empty(t, look(8_000, well, without...), "it has just begun")
			require.Len(t, look(16_000, well, without...), 2)
			require.Empty(t, s.strikes)
		})
	}
}

func TestAHandoverThatWasRefusedIsTriedAgain(t *testing.T) {
	s := new(Spreader)
	for now := int64(0); now < minute; now += 5_000 {
		plan := s.Plan(now, survey(minute+now, 1, 1, 1, 2, 2, 2))
		require.Len(t, plan, 2)
		for _, h := range plan {
			s.Refused(h)
		}
	}
}
