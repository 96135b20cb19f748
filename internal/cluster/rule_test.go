package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// places are nodes 1, 2, ... with labels dc=VALUE; "": none.
func places(values ...string) *State {
	s := members(uint64(len(values)))
	s.Level = 2
	for i, value := range values {
		n := s.Nodes[uint64(i+1)]
		if value != "" {
			n.Labels = []Label{Label("dc=" + value)}
		}
		s.Nodes[n.ID] = n
	}
	_ = s.Fold(Enact(s, votesDue(s, seen(nil, nil))))
	return s
}

func everyNode(uint64) bool { return true }

// datacenters are the values of dc that a log's replicas are on, sorted.
func (s *State) datacenters(nodes []uint64) string {
	var values []string
	for _, id := range nodes {
		n := s.Nodes[id]
		values = append(values, strings.TrimPrefix(string(n.label("dc")), "dc="))
	}
	slices.Sort(values)
	return strings.Join(values, " ")
}

func TestReplicasAreSpreadAsTheRuleSays(t *testing.T) {
	for _, row := range []struct {
		what     string
		nodes    []string
		replicas int
		rule     Rule
		down     []uint64
		on       string
		refused  string
	}{
		{"three datacenters of two", []string{"a", "a", "b", "b", "c", "c"}, 3, Rule{Spread: "dc"}, nil, "a b c", ""},
		{"five replicas", []string{"a", "a", "b", "b", "c", "c"}, 5, Rule{Spread: "dc"}, nil, "a a b b c", ""},
		{"two and a half", []string{"a", "a", "b", "b", "c"}, 3, Rule{Spread: "dc"}, nil, "a b c", ""},
		{"two and a half, five replicas", []string{"a", "a", "a", "b", "b", "b", "c"}, 5, Rule{Spread: "dc"}, nil, "a a b b c", ""},
		{"two datacenters", []string{"a", "a", "a", "b"}, 3, Rule{Spread: "dc"}, nil, "a a b", ""},
		{"a datacenter that is down holds its share", []string{"a", "a", "a", "b"}, 3, Rule{Spread: "dc"}, []uint64{4}, "a a b", ""},
		{"of two the one that answers", []string{"a", "b", "c", "c"}, 3, Rule{Spread: "dc"}, []uint64{3}, "a b c", ""},
		{"nodes without the label", []string{"a", "b", "c", "", ""}, 3, Rule{Spread: "dc"}, nil, "a b c", ""},
		{"one datacenter", []string{"a", "a", "a"}, 3, Rule{Spread: "dc"}, nil, "", "all nodes that may hold voters have dc=a"},
		{"no datacenter", []string{"", ""}, 2, Rule{Spread: "dc"}, nil, "", "has a label dc"},
		{"one replica", []string{"a", "b"}, 1, Rule{Spread: "dc"}, nil, "", "one replica cannot be spread"},
		{"a majority would be in one", []string{"a", "b", "c", "c", "c"}, 5, Rule{Spread: "dc"}, nil, "", "4 of 5 replicas can be placed"},
		{"in one datacenter", []string{"a", "a", "b", "b"}, 2, Rule{In: []Label{"dc=b"}}, nil, "b b", ""},
		{"in one that is too small", []string{"a", "a", "b"}, 2, Rule{In: []Label{"dc=b"}}, nil, "", "1 of 2 replicas can be placed: of 3 nodes 1 may hold one"},
		{"not in one", []string{"a", "b", "b", "c"}, 3, Rule{Out: []Label{"dc=a"}}, nil, "b b c", ""},
		{"the home has one", []string{"a", "a", "a", "b"}, 1, Rule{Homes: []Label{"dc=b"}}, nil, "b", ""},
		{"the second choice has one too", []string{"a", "a", "a", "b", "c"}, 2, Rule{Homes: []Label{"dc=b", "dc=c"}}, nil, "b c", ""},
		{"a home that voters may not be on", []string{"a", "b"}, 1, Rule{Homes: []Label{"dc=b"}, Out: []Label{"dc=b"}}, nil, "", "the home of its leader"},
		{"no home", []string{"a", "b"}, 1, Rule{Homes: []Label{"dc=x"}}, nil, "", "dc=x, the home of its leader"},
		{"no label", []string{"a"}, 1, Rule{In: []Label{"dc"}}, nil, "", "a label must be"},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := places(row.nodes...)
			l, refusal := CreateLog(s, NewLog{Name: "orders", Config: Config{Replicas: row.replicas, Rule: &row.rule}}, seen(row.down, nil).Alive)
			if row.refused != "" {
				require.ErrorContains(t, refusal, row.refused)
				return
			}
			require.Nil(t, refusal)
			require.Equal(t, row.on, s.datacenters(nodesOf(l.Replicas)))
			require.NotContains(t, row.down, l.Replicas[0].Node, "one that is down does not begin")
			require.Empty(t, Unmet(s, &l))
			if len(row.rule.Homes) > 0 {
				first := s.Nodes[l.Replicas[0].Node]
				require.Zero(t, first.rank(row.rule.Homes), "the first leads at home")
			}
		})
	}
}

func TestNodesThatAreGivenHaveToKeepTheRule(t *testing.T) {
	s := places("a", "a", "b", "c")
	rule := &Rule{Spread: "dc"}
	_, refusal := CreateLog(s, NewLog{Name: "orders", Config: Config{Rule: rule}, Nodes: []uint64{1, 2, 3}}, everyNode)
	require.ErrorContains(t, refusal, "dc=a has 2 of 3 voters, and may have 1")
	_, refusal = CreateLog(s, NewLog{Name: "orders", Config: Config{Rule: rule}, Nodes: []uint64{2, 3, 4}}, everyNode)
	require.Nil(t, refusal)
}

// settled carries out what is due until nothing is, and returns how many steps that took.
func (s *State) settled(t *testing.T, v View) (steps int) {
	t.Helper()
	for ; ; steps++ {
		require.Less(t, steps, 50, "it goes to and fro")
		due := Due(s, v)
		if len(due) == 0 {
			return steps
		}
		require.NoError(t, s.Fold(Enact(s, due)))
		for _, name := range slices.Sorted(maps.Keys(s.Logs)) {
			l := s.Logs[name]
			if c := Settle(s, &l); !c.Empty() {
				require.NoError(t, s.Fold(c))
			}
		}
	}
}

func TestReplicasMoveUntilTheRuleIsKept(t *testing.T) {
	s := places("a", "a", "a", "b", "c")
	s.placed("orders", 3, 1, 2, 3)
	s.placed("others", 3, 1, 2, 3)
	c, refusal := ReconfigureLog(s, "orders", 0, Config{Rule: &Rule{Spread: "dc"}})
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(c))
	l := s.Logs["orders"]
	require.Equal(t, []string{"dc=a has 3 of 3 voters, and may have 1"}, Unmet(s, &l))

	require.Zero(t, s.settled(t, seen([]uint64{4, 5}, nil)), "not to nodes that are down")
	s.settled(t, seen(nil, nil))
	require.Equal(t, "a b c", s.datacenters(s.on("orders")))
	require.Equal(t, []uint64{1, 2, 3}, s.on("others"), "a log without a rule stays")

	// A node comes back as one of another datacenter: the others keep the rule without it.
	n := s.Nodes[5]
	n.Labels = []Label{"dc=b"}
	s.Nodes[5] = n
	l = s.Logs["orders"]
	require.Empty(t, Unmet(s, &l), "of two datacenters both have one")
	n.Labels = nil
	s.Nodes[5] = n
	require.Equal(t, []string{`node "node5" has no label dc`}, Unmet(s, &l))
	s.settled(t, seen(nil, nil))
	require.Equal(t, "a a b", s.datacenters(s.on("orders")))
}

func TestWhatIsAddedAndRemovedKeepsTheRule(t *testing.T) {
	s := places("a", "a", "b", "b", "c")
	s.placed("orders", 3, 1)
	l := s.Logs["orders"]
	l.Config.Rule = &Rule{Spread: "dc", Homes: []Label{"dc=b"}}
	s.Logs["orders"] = l
	require.Equal(t, []string{"no voter is on a node with dc=b, the home of its leader"}, Unmet(s, &l))
	s.settled(t, seen([]uint64{5}, nil))
	require.Equal(t, "a b", s.datacenters(s.on("orders")), "the third waits for a node that may hold it")
	s.settled(t, seen(nil, nil))
	require.Equal(t, "a b c", s.datacenters(s.on("orders")))
	for _, row := range []struct {
		replicas int
		on       string
	}{{5, "a a b b c"}, {3, "a b c"}} {
		c, refusal := ReconfigureLog(s, "orders", 0, Config{Replicas: row.replicas})
		require.Nil(t, refusal)
		require.NoError(t, s.Fold(c))
		s.settled(t, seen(nil, nil))
		require.Equal(t, row.on, s.datacenters(s.on("orders")))
	}
	_, refusal := ReconfigureLog(s, "orders", 0, Config{Replicas: 1})
	require.ErrorContains(t, refusal, "one replica cannot be spread over dc")
}

func TestReplicasThatAreDownAreRemovedBeforeThoseThatTheRuleForbids(t *testing.T) {
	s, down := places("a", "a", "a", "b", "b", "b"), seen([]uint64{4, 5}, nil)
	s.placed("orders", 5, 1, 2, 3, 4, 5)
	c, refusal := ReconfigureLog(s, "orders", 0, Config{Replicas: 3, Rule: &Rule{In: []Label{"dc=b"}}})
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(c))
	due := Due(s, down)
	require.Len(t, due, 1)
	require.Equal(t, RemoveReplica, due[0].Kind)
	require.Contains(t, []uint64{4, 5}, due[0].Node, "of the others 2 of 4 would be up")
	s.settled(t, down)
	require.Equal(t, "a a b", s.datacenters(s.on("orders")), "one of b is up")
	s.settled(t, seen(nil, nil))
	require.Equal(t, "b b b", s.datacenters(s.on("orders")))
}

func TestAReplacementKeepsTheRule(t *testing.T) {
	rule := &Rule{Spread: "dc"}
	for _, row := range []struct {
		what    string
		nodes   []string
		with    string
		on      string
		refused string
	}{
		{"the new node is where the old one was", []string{"a", "b", "c", "c"}, "node4", "a b c", ""},
		{"another one is", []string{"a", "b", "c", "a", "c"}, "node4", "a b c", ""},
		{"nobody is any more", []string{"a", "b", "c", "a"}, "node4", "a a b", ""},
		{"no node may take it", []string{"a", "b", "c", ""}, "node4", "", `no node that can be reached may take the replica of log "orders" that node "node3" holds (spread dc)`},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := places(row.nodes...)
			s.placed("orders", 3, 1, 2, 3)
			l := s.Logs["orders"]
			l.Config.Rule = rule
			s.Logs["orders"] = l
			c, refusal := ReplaceNode(s, "node3", row.with, everyNode)
			if row.refused != "" {
				require.ErrorContains(t, refusal, row.refused)
				return
			}
			require.Nil(t, refusal)
			require.NoError(t, s.Fold(c))
			s.settled(t, seen(nil, nil))
			require.Equal(t, row.on, s.datacenters(s.on("orders")))
		})
	}
}

func TestARebalanceKeepsTheRule(t *testing.T) {
	s := places("a", "a", "b", "c")
	for i := range 10 {
		s.placed(fmt.Sprint("log", i), 3, 1, 3, 4)
		l := s.Logs[fmt.Sprint("log", i)]
		l.Config.Rule = &Rule{Spread: "dc"}
		s.Logs[l.Name] = l
	}
	require.NoError(t, s.Fold(Change{Spread: new(true)}))
	s.settled(t, seen(nil, nil))
	require.Equal(t, map[uint64]int{1: 5, 2: 5, 3: 10, 4: 10}, s.load(), "as even as the rule allows")
}

func TestTheRuleOfTheLongestPrefixHoldsForLogsWithoutOne(t *testing.T) {
	s := places("a", "b", "c")
	set := func(prefix string, rule Rule) *record.Refusal {
		c, refusal := SetRule(s, prefix, rule)
		if refusal == nil && !c.Empty() {
			require.NoError(t, s.Fold(c))
		}
		return refusal
	}
	require.Nil(t, set("", Rule{Spread: "dc"}))
	require.Nil(t, set("eu.", Rule{In: []Label{"dc=a", "dc=b", "dc=c"}, Homes: []Label{"dc=a"}}))
	require.Equal(t, "spread dc", s.RuleOf(&Log{Name: "us.orders"}).String())
	require.Equal(t, "voters in dc=a,dc=b,dc=c; leader home dc=a", s.RuleOf(&Log{Name: "eu.orders"}).String())
	own := &Rule{Out: []Label{"dc=c"}}
	require.Equal(t, own, s.RuleOf(&Log{Name: "eu.orders", Config: Config{Rule: own}}))

	s.placed("eu.one", 1, 1)
	require.ErrorContains(t, set("eu.", Rule{Spread: "dc"}), `log "eu.one" cannot be placed as asked (spread dc): one replica cannot be spread over dc`)
	require.ErrorContains(t, set("eu.", Rule{In: []Label{"dc=x"}}), "0 of 1 replicas can be placed")
	require.ErrorContains(t, set("eu/", Rule{Spread: "dc"}), "cannot be the beginning of a log name")

	// One that was kept once, as there was a dc=d, is not in the way of rules that the log does not go by.
	s.placed("us.one", 1, 1)
	l := s.Logs["us.one"]
	l.Config.Rule = &Rule{In: []Label{"dc=d"}}
	require.NoError(t, s.Fold(Change{Put: []Log{l}}))
	require.Nil(t, set("us.", Rule{Spread: "dc"}))
	require.Nil(t, set("us.", Rule{}))
	require.Nil(t, set("", Rule{}))
	require.Nil(t, s.RuleOf(&Log{Name: "us.orders"}))
	require.Nil(t, set("", Rule{}), "again")
	require.Len(t, s.Rules, 1)
}

func TestRulesAndLabelsNeedTheLevelThatAllowsThem(t *testing.T) {
	s := places("a", "b")
	s.Level = 1
	rule := Rule{Spread: "dc"}
	for _, c := range []Change{
		{Rules: map[string]Rule{"": rule}},
		{Put: []Log{{Config: Config{Rule: &rule}}}},
		{Node: []Node{{ID: 1, Labels: []Label{"dc=a"}}}},
	} {
		require.ErrorContains(t, Allow(s, c), "this needs feature level 2")
		require.Nil(t, Allow(places("a"), c))
	}
	me := Node{ID: 1, Name: "node1", Labels: []Label{"dc=b", "rack=1"}}
	old := s.Nodes[1].Labels
	change, refusal := Introduce(s, me, nil, 2, "")
	require.Nil(t, refusal)
	require.True(t, change.Empty(), "labels wait for the level")
	s.Level = 2
	change, _ = Introduce(s, me, nil, 2, "")
	require.NoError(t, s.Fold(change))
	require.Equal(t, me.Labels, s.Nodes[1].Labels)
	require.Equal(t, []Label{"dc=a"}, old)
	change, _ = Introduce(s, me, nil, 2, "")
	require.True(t, change.Empty())
}

func TestLabelsAreChecked(t *testing.T) {
	require.Nil(t, CheckLabels([]Label{"dc=fra", "rack=r1"}))
	for _, bad := range [][]Label{{"dc"}, {"=x"}, {"dc="}, {"dc=a b"}, {"dc=a=b"}, {"dc=a", "dc=b"}, make([]Label, MaxLabels+1)} {
		require.NotNil(t, CheckLabels(bad), "%v", bad)
	}
}
