package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// homes are the datacenters of three nodes, and the rule of all logs of a survey.
func homes(v Survey, rule Rule) Survey {
	for id, value := range map[uint64]Label{1: "dc=a", 2: "dc=b", 3: "dc=c"} {
		n := v.State.Nodes[id]
		n.Labels = []Label{value, "region=eu"}
		v.State.Nodes[id] = n
	}
	setRules(v.State.Rules, map[string]Rule{"": rule})
	return v
}

func drained(v Survey, nodes ...uint64) Survey {
	for _, id := range nodes {
		n := v.State.Nodes[id]
		n.Drained = true
		v.State.Nodes[id] = n
	}
	return v
}

// givenTo counts the logs that a plan gives to each node.
func givenTo(plan []Handover) map[uint64]int {
	to := map[uint64]int{}
	for _, h := range plan {
		to[h.To]++
	}
	return to
}

func TestLeadersGoHomeAndAwayFromDrainedNodes(t *testing.T) {
	type to = map[uint64]int
	atB := Rule{Homes: []Label{"dc=b", "dc=c"}}
	anywhere := []uint64{1, 1, 1, 2, 2, 3}
	for _, row := range []struct {
		what   string
		survey Survey
		to     to
	}{
		{"all go home", homes(survey(minute, anywhere...), atB), to{2: 4}},
		{"all are at home", homes(survey(minute, 2, 2, 2, 2, 2, 2), atB), to{}},
		{"to the second choice", homes(withoutNode(survey(minute, 1, 1, 1, 1, 1, 3), 2), atB), to{3: 5}},
		{"not to a third", homes(withoutNode(survey(minute, 1, 1, 1, 3, 3, 3), 2), Rule{Homes: []Label{"dc=b"}}), to{}},
		{"two homes of the same label share", homes(survey(minute, 1, 1, 1, 1, 1, 1), Rule{Homes: []Label{"region=eu"}}), to{2: 2, 3: 2}},
		{"the home has just begun", homes(change(survey(minute, 3, 3, 3, 3, 3, 3), 2, func(n *Surveyed) { n.Up = SettleMillis - 1 }), atB), to{}},
		{"the home is unfit", homes(change(survey(minute, 3, 3, 3, 3, 3, 3), 2, func(n *Surveyed) { n.Unfit = true }), atB), to{}},
		{"a node is drained", drained(survey(minute, anywhere...), 1), to{2: 1, 3: 2}},
		{"two are", drained(survey(minute, anywhere...), 1, 3), to{2: 4}},
		{"all are", drained(survey(minute, anywhere...), 1, 2, 3), to{}},
		{"the home is drained", drained(homes(survey(minute, 2, 2, 2, 2, 2, 2), atB), 2), to{3: 6}},
		{"a drained one gets nothing", drained(survey(minute, 1, 1, 1, 2, 2, 2), 3), to{}},
	} {
		t.Run(row.what, func(t *testing.T) {
			require.Equal(t, row.to, givenTo(new(Spreader).Plan(0, row.survey)))
		})
	}
}

// A home that returns gets its logs within a look and SettleMillis; one that fails again and
// again has to be well for twice as long each time.
func TestAHomeThatComesAndGoesWaitsLonger(t *testing.T) {
	const look = 2_000
	s, now := new(Spreader), int64(minute)
	away, there := []uint64{1, 1, 1, 1, 1, 1}, []uint64{2, 2, 2, 2, 2, 2}
	rule := Rule{Homes: []Label{"dc=b", "dc=a"}}
	began := int64(-minute)
	require.Empty(t, s.Plan(now, homes(survey(now-began, there...), rule)))
	for _, needed := range []int64{5_000, 10_000, 20_000, 40_000} {
		for range 2 {
			now += look
			require.Empty(t, s.Plan(now, withoutNode(homes(survey(now-began, away...), rule), 2)), "it is cut off")
		}
		back := now + look
		for now = back; ; now += look {
			plan := s.Plan(now, homes(survey(now-began, away...), rule))
			if len(plan) > 0 {
				require.Equal(t, map[uint64]int{2: 6}, givenTo(plan))
				break
			}
			require.LessOrEqual(t, now-back, needed)
		}
		require.InDelta(t, needed, now-back, look)
		now += look
		require.Empty(t, s.Plan(now, homes(survey(now-began, there...), rule)))
	}
	now += forgetMillis
	require.Empty(t, s.Plan(now, homes(survey(now-began, there...), rule)))
	for range 2 {
		now += look
		require.Empty(t, s.Plan(now, withoutNode(homes(survey(now-began, away...), rule), 2)))
	}
	require.Empty(t, s.Plan(now+look, homes(survey(now+look-began, away...), rule)))
	require.NotEmpty(t, s.Plan(now+4*look, homes(survey(now+4*look-began, away...), rule)), "all that is forgotten")
}

// A restart is a fall, and one late answer is none.
func TestAHomeThatRestartsAgainAndAgainWaitsLonger(t *testing.T) {
	for _, row := range []struct {
		what    string
		fall    func(Survey) Survey
		settled int64 // after three falls
	}{
		{"a restart", func(v Survey) Survey { return change(v, 2, func(n *Surveyed) { n.Up = 0 }) }, 20_000},
		{"a late answer", func(v Survey) Survey { return withoutNode(v, 2) }, 0},
	} {
		t.Run(row.what, func(t *testing.T) {
			s, now, began := new(Spreader), int64(minute), int64(0)
			look := func() []Handover {
				v := homes(survey(minute+now, 1), Rule{Homes: []Label{"dc=b", "dc=a"}})
				return s.Plan(now, change(v, 2, func(n *Surveyed) { n.Up = now - began }))
			}
			look()
			for range 3 {
				now += 1_000
				if s.Plan(now, row.fall(homes(survey(minute+now, 1), Rule{Homes: []Label{"dc=b", "dc=a"}}))); row.settled > 0 {
					began = now
				}
				now += 1_000
				look()
			}
			s.given, s.strikes = nil, nil
			at := now
			for len(look()) == 0 {
				now += 1_000
				require.Less(t, now-at, int64(minute))
			}
			require.InDelta(t, row.settled, now-at, 2_000)
		})
	}
}

// What takes a log away from its home, a disk that is slow or an operator, does so again.
func TestAHomeThatDoesNotKeepItsLogsIsGivenThemLessAndLessOften(t *testing.T) {
	s, gaps, last := new(Spreader), []int64{}, int64(0)
	for now := int64(1_000); now < 400_000; now += 1_000 {
		// It hands the log back before the next look.
		if plan := s.Plan(now, homes(survey(minute+now, 1), Rule{Homes: []Label{"dc=b"}})); len(plan) > 0 {
			if last > 0 {
				gaps = append(gaps, (now-last)/1_000)
			}
			last = now
		}
	}
	require.Equal(t, []int64{6, 11, 21, 41, 81, 161}, gaps)
}

// A drain is over before the next look, which finds that the node did not keep its logs.
func TestANodeThatWasDrainedIsGivenItsLogsAgainAfterAnUndrain(t *testing.T) {
	s := new(Spreader)
	at := func(now int64, leaders ...uint64) Survey { return survey(minute+now, leaders...) }
	require.Equal(t, map[uint64]int{2: 4}, givenTo(s.Plan(0, at(0, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3))))
	require.Empty(t, s.Plan(2_000, at(2_000, 2, 2, 2, 2, 1, 1, 1, 1, 3, 3, 3, 3)))
	away := []uint64{1, 1, 3, 3, 1, 1, 1, 1, 3, 3, 3, 3}
	require.Empty(t, s.Plan(4_000, drained(at(4_000, away...), 2)))
	restarted := func(now int64) Survey {
		return change(at(now, away...), 2, func(n *Surveyed) { n.Up = now - 6_000 })
	}
	require.Empty(t, s.Plan(6_000, drained(restarted(6_000), 2)))
	require.Empty(t, s.Plan(8_000, restarted(8_000)), "it has just begun")
	require.Equal(t, map[uint64]int{2: 4}, givenTo(s.Plan(12_000, restarted(12_000))))
}

func TestADrainedNodeMayStopWhenNobodyMissesIt(t *testing.T) {
	type ids = []uint64
	for _, row := range []struct {
		what string
		logs []LogVoters
		want []string
	}{
		{"nothing", nil, nil},
		{"others lead, and keep up", []LogVoters{{"orders", 2, ids{1, 2, 3}, nil, ids{1, 2, 3}}}, nil},
		{"it leads", []LogVoters{{"orders", 1, ids{1, 2, 3}, nil, ids{1, 2, 3}}, {"more", 1, ids{1, 2, 3}, nil, ids{1, 2, 3}}}, []string{"it leads log orders", "it leads log more"}},
		{"another is down", []LogVoters{{"orders", 2, ids{1, 2, 3}, nil, ids{1, 2}}}, []string{"log orders would have 1 of the 2 voters that it needs"}},
		{"this one lags, and another is down", []LogVoters{{"orders", 2, ids{1, 2, 3}, nil, ids{2}}}, []string{"log orders would have 1 of the 2 voters that it needs"}},
		{"it does not vote", []LogVoters{{"orders", 2, ids{2, 3}, nil, ids{2}}}, nil},
		{"of two voters", []LogVoters{{"orders", 2, ids{1, 2}, nil, ids{1, 2}}}, []string{"log orders would have 1 of the 2 voters that it needs"}},
		{"its voters change", []LogVoters{{"orders", 2, ids{1, 2, 3}, ids{1, 2}, ids{1, 2, 3}}}, []string{"the voters of log orders are being changed"}},
		{"its vote is being taken", []LogVoters{{"orders", 2, ids{2, 3, 4}, ids{1, 2, 3}, ids{2, 3, 4}}}, []string{"the voters of log orders are being changed"}},
		{"others change", []LogVoters{{"orders", 2, ids{2, 3}, ids{2}, ids{2, 3}}}, nil},
		{"the only one", []LogVoters{{"orders", 1, ids{1}, nil, ids{1}}}, []string{"log orders is on this node alone"}},
	} {
		require.Equal(t, row.want, Waits(1, row.logs), row.what)
	}
}

func TestHeirsOfADrainedNode(t *testing.T) {
	s := places("a", "b", "c", "b")
	s.placed("orders", 4, 1, 2, 3, 4)
	l := s.Logs["orders"]
	voters := nodesOf(nil)
	for _, r := range l.Replicas {
		voters = append(voters, r.ID)
	}
	l.Config.Rule = &Rule{Homes: []Label{"dc=c", "dc=b"}}
	change, refusal := Drain(s, "node1", false)
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(change))
	heirs := Heirs(s, &l, voters)
	require.Len(t, heirs, 3)
	require.Equal(t, uint64(3), l.NodeOf(heirs[0]), "the home first")
	change, refusal = Drain(s, "node1", false)
	require.Nil(t, refusal)
	require.True(t, change.Empty(), "it is drained already")
	change, _ = Drain(s, "node1", true)
	require.NoError(t, s.Fold(change))
	require.Len(t, Heirs(s, &l, voters), 4)
	_, refusal = Drain(s, "node9", false)
	require.ErrorContains(t, refusal, `node "node9" does not exist; nodes: node1, `)
	s.Level = 1
	require.ErrorContains(t, Allow(s, Change{Node: []Node{{ID: 1, Drained: true}}}), "this needs feature level 2")
}
