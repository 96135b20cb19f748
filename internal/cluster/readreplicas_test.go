package cluster

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readReplicasOf says on which datacenters the read replicas of a log are.
func (s *State) readReplicasOf(log string) string {
	return s.datacenters(nodesOf(s.Logs[log].Readers))
}

// reconfigured changes the rule of a log, and carries out what is due.
func (s *State) reconfigured(t *testing.T, log string, rule Rule) {
	t.Helper()
	c, refusal := ReconfigureLog(s, log, 0, Config{Rule: &rule})
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(c))
	s.settled(t, seen(nil, nil))
}

func reads(dc string, count int) ReadReplicas {
	return ReadReplicas{Label: Label("dc=" + dc), Count: count}
}

func TestReadReplicasArePlacedBesideTheVoters(t *testing.T) {
	for _, row := range []struct {
		what     string
		nodes    []string
		replicas int
		rule     Rule
		voters   string
		readers  string
		refused  string
	}{
		{"in a datacenter of their own", []string{"a", "a", "a", "s"}, 3, Rule{Readers: []ReadReplicas{reads("s", 1)}}, "a a a", "s", ""},
		{"voters leave room", []string{"s", "a", "a", "a"}, 3, Rule{Readers: []ReadReplicas{reads("s", 1)}}, "a a a", "s", ""},
		{"but not if they need the node", []string{"s", "a", "b", "b"}, 3, Rule{Spread: "dc", Readers: []ReadReplicas{reads("s", 1)}}, "", "", "dc=s has 0 of 1 read replicas: too few nodes"},
		{"beside a voter in the same datacenter", []string{"a", "b", "s", "s"}, 3, Rule{Spread: "dc", Readers: []ReadReplicas{reads("s", 1)}}, "a b s", "s", ""},
		{"several places", []string{"a", "s", "s", "t"}, 1, Rule{Readers: []ReadReplicas{reads("s", 2), reads("t", 1)}}, "a", "s s t", ""},
		{"too many", []string{"a", "s"}, 1, Rule{Readers: []ReadReplicas{reads("s", 2)}}, "", "", "dc=s has 1 of 2 read replicas"},
		{"no such place", []string{"a", "s"}, 1, Rule{Readers: []ReadReplicas{reads("x", 1)}}, "", "", "dc=x has 0 of 1 read replicas"},
		{"none", []string{"a", "s"}, 1, Rule{Readers: []ReadReplicas{reads("s", 0)}}, "", "", "must be 1 to 16, not 0"},
		{"far too many", []string{"a", "s"}, 1, Rule{Readers: []ReadReplicas{reads("s", 9), reads("t", 9)}}, "", "", "18 read replicas requested"},
		{"twice", []string{"a", "s"}, 1, Rule{Readers: []ReadReplicas{reads("s", 1), reads("s", 1)}}, "", "", "given twice"},
		{"no label", []string{"a"}, 1, Rule{Readers: []ReadReplicas{{Label: "dc", Count: 1}}}, "", "", "a label must be"},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := places(row.nodes...)
			l, refusal := CreateLog(s, NewLog{Name: "orders", Config: Config{Replicas: row.replicas, Rule: &row.rule}}, everyNode)
			if row.refused != "" {
				require.ErrorContains(t, refusal, row.refused)
				return
			}
			require.Nil(t, refusal)
			require.NoError(t, s.Fold(Change{Put: []Log{l}}))
			require.Equal(t, row.voters, s.datacenters(nodesOf(l.Replicas)))
			require.Equal(t, row.readers, s.readReplicasOf("orders"))
			require.Empty(t, Unmet(s, &l))
			require.Len(t, l.Founders, row.replicas, "no read replica votes at the beginning")
			require.False(t, l.Settled(), "its leader has yet to add them")
			require.Equal(t, l.Founders, l.Voters())
			s.settled(t, seen(nil, nil))
			require.Equal(t, row.readers, s.readReplicasOf("orders"))
		})
	}
}

func TestNodesThatAreGivenLeaveRoomForReadReplicas(t *testing.T) {
	s := places("a", "s", "s")
	rule := &Rule{Readers: []ReadReplicas{reads("s", 1)}}
	_, refusal := CreateLog(s, NewLog{Name: "orders", Config: Config{Rule: rule}, Nodes: []uint64{1, 2, 3}}, everyNode)
	require.ErrorContains(t, refusal, "dc=s has 0 of 1 read replicas")
	l, refusal := CreateLog(s, NewLog{Name: "orders", Config: Config{Rule: rule}, Nodes: []uint64{1, 2}}, everyNode)
	require.Nil(t, refusal)
	require.Equal(t, []uint64{3}, nodesOf(l.Readers))
}

func TestReadReplicasComeMoveAndGo(t *testing.T) {
	s := places("a", "a", "a", "s", "s", "t")
	s.placed("orders", 3, 1, 2, 3)
	s.reconfigured(t, "orders", Rule{Readers: []ReadReplicas{reads("s", 1), reads("t", 1)}})
	require.Equal(t, "s t", s.readReplicasOf("orders"))
	require.Equal(t, []uint64{1, 2, 3}, s.on("orders"))
	on := s.Logs["orders"].Readers[0].Node
	other := uint64(4 + 5 - on)

	require.Zero(t, s.settled(t, seen([]uint64{on}, nil)), "a restart moves nothing")
	s.settled(t, seen([]uint64{on}, []uint64{on}))
	require.Equal(t, []uint64{other, 6}, nodesOf(s.Logs["orders"].Readers), "from a node that is lost")
	require.Zero(t, s.settled(t, seen([]uint64{other, on}, []uint64{other, on})), "not to one that is down")

	c, refusal := Drain(s, s.Nodes[other].Name, false)
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(c))
	s.settled(t, seen(nil, nil))
	require.Equal(t, []uint64{on, 6}, nodesOf(s.Logs["orders"].Readers), "from a node that is drained")
	c, _ = Drain(s, s.Nodes[on].Name, false)
	require.NoError(t, s.Fold(c))
	require.Zero(t, s.settled(t, seen(nil, nil)), "not from one drained node to another")

	// A node without the label of its read replica.
	n := s.Nodes[6]
	n.Labels = nil
	s.Nodes[6] = n
	l := s.Logs["orders"]
	require.Equal(t, []string{"dc=t has 0 of 1 read replicas: too few nodes with that label hold no voter of the log"}, Unmet(s, &l))
	s.settled(t, seen(nil, nil))
	require.Equal(t, "s", s.readReplicasOf("orders"))

	// A node leaves with its read replica, though not with a voter.
	_, refusal = RemoveNode(s, "node1")
	require.ErrorContains(t, refusal, `holds a replica of log "orders"`)
	c, refusal = RemoveNode(s, s.Nodes[on].Name)
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(c))
	require.Empty(t, retired(s), "it is still needed")
	c, _ = Drain(s, s.Nodes[other].Name, true)
	require.NoError(t, s.Fold(c))
	s.settled(t, seen(nil, nil))
	require.Equal(t, []uint64{other}, nodesOf(s.Logs["orders"].Readers))
	require.False(t, s.Holds(on))

	s.reconfigured(t, "orders", Rule{})
	require.Empty(t, s.Logs["orders"].Readers)
	require.Equal(t, []uint64{1, 2, 3}, s.on("orders"))
}

func TestOfTooManyReadReplicasThoseThatServeNobodyGo(t *testing.T) {
	s := places("a", "s", "s", "s")
	s.placed("orders", 1, 1)
	s.reconfigured(t, "orders", Rule{Readers: []ReadReplicas{reads("s", 3)}})
	c, refusal := ReconfigureLog(s, "orders", 0, Config{Rule: &Rule{Readers: []ReadReplicas{reads("s", 2)}}})
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(c))
	s.settled(t, seen([]uint64{3}, []uint64{3}))
	require.ElementsMatch(t, []uint64{2, 4}, nodesOf(s.Logs["orders"].Readers))
}

func TestANodeOfTwoLabelsIsLeftForTheReadReplicaThatNeedsIt(t *testing.T) {
	s := places("a", "s", "s")
	n := s.Nodes[2]
	n.Labels = []Label{"dc=s", "disk=ssd"}
	s.Nodes[2] = n
	s.placed("orders", 1, 1)
	s.reconfigured(t, "orders", Rule{Readers: []ReadReplicas{reads("s", 1), {Label: "disk=ssd", Count: 1}}})
	require.ElementsMatch(t, []uint64{2, 3}, nodesOf(s.Logs["orders"].Readers))
}

// Only one of all assignments gives each label a node.
func TestReadReplicasArePlacedWhereverThereIsAnAssignment(t *testing.T) {
	label := func(name string) Label { return Label(name + "=1") }
	wanted := func(names ...string) (readers []ReadReplicas) {
		for _, name := range names {
			readers = append(readers, ReadReplicas{Label: label(name), Count: 1})
		}
		return readers
	}
	with := func(labels ...string) *State {
		s := places("v", "", "", "")
		for i, names := range labels {
			n := s.Nodes[uint64(i+2)]
			for _, name := range strings.Split(names, "") {
				n.Labels = append(n.Labels, label(name))
			}
			s.Nodes[n.ID] = n
		}
		return s
	}
	for _, labels := range [][]string{{"ab", "ac", "c"}, {"ac", "ab", "c"}, {"c", "ac", "ab"}, {"abc", "bc", "c"}, {"c", "bc", "abc"}} {
		for _, order := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c"}} {
			s := with(labels...)
			l, refusal := CreateLog(s, NewLog{Name: "orders", Config: Config{Replicas: 1, Rule: &Rule{In: []Label{"dc=v"}, Readers: wanted(order...)}}}, everyNode)
			require.Nil(t, refusal, "%v on %v", order, labels)
			require.ElementsMatch(t, []uint64{2, 3, 4}, nodesOf(l.Readers))
		}
	}

	// One that is there stays, and counts for the label that leaves room for the other.
	s := with("ab", "a", "")
	s.placed("orders", 1, 1)
	s.reconfigured(t, "orders", Rule{Readers: wanted("a")})
	require.Len(t, s.Logs["orders"].Readers, 1)
	first := s.Logs["orders"].Readers[0].Node
	s.reconfigured(t, "orders", Rule{Readers: wanted("a", "b")})
	require.ElementsMatch(t, []uint64{2, 3}, nodesOf(s.Logs["orders"].Readers))
	require.Contains(t, nodesOf(s.Logs["orders"].Readers), first)
}

// A voter is worth more than any number of read replicas.
func TestAVoterTakesThePlaceOfAReadReplica(t *testing.T) {
	s := places("a", "a", "s")
	s.placed("orders", 2, 1, 2)
	rule := Rule{Readers: []ReadReplicas{reads("s", 1)}}
	s.reconfigured(t, "orders", rule)
	require.Equal(t, "s", s.readReplicasOf("orders"))
	_, refusal := ReconfigureLog(s, "orders", 0, Config{Replicas: 3})
	require.ErrorContains(t, refusal, "dc=s has 0 of 1 read replicas")

	// Without a look at the rule, as if the third node had left.
	l := s.Logs["orders"]
	l.Config.Replicas = 3
	s.Logs["orders"] = l
	s.settled(t, seen(nil, nil))
	require.Equal(t, []uint64{1, 2, 3}, s.on("orders"))
	require.Empty(t, s.readReplicasOf("orders"))

	s = places("a", "a", "s")
	s.placed("orders", 2, 1, 2)
	s.reconfigured(t, "orders", rule)
	l = s.Logs["orders"]
	l.Config.Rule = &Rule{Spread: "dc", Readers: rule.Readers}
	s.Logs["orders"] = l
	s.settled(t, seen(nil, nil))
	require.Equal(t, "a s", s.datacenters(s.on("orders")))
	require.Empty(t, s.readReplicasOf("orders"))
	l = s.Logs["orders"]
	require.NotEmpty(t, Unmet(s, &l))
}

// A voter that could be elsewhere makes room.
func TestAVoterMovesWhereAReadReplicaHasNoOtherPlace(t *testing.T) {
	s := places("a", "a", "a", "s")
	s.placed("orders", 3, 1, 2, 4)
	s.reconfigured(t, "orders", Rule{Readers: []ReadReplicas{reads("s", 1)}})
	require.Equal(t, []uint64{1, 2, 3}, s.on("orders"))
	require.Equal(t, "s", s.readReplicasOf("orders"))
	require.NoError(t, s.Fold(Change{Spread: new(true)}))
	s.settled(t, seen(nil, nil))
	require.Equal(t, "s", s.readReplicasOf("orders"), "a rebalance leaves it its place")
}

func TestAReadReplicaCountsForNoMajority(t *testing.T) {
	p := three()
	p.Add(4, 4, true)
	p.Add(5, 5, true)
	p.Settle()
	require.True(t, p.Settled())
	require.Equal(t, []uint64{1, 2, 3}, p.Voters())
	voters, learners := p.Wanted()
	require.Equal(t, []uint64{1, 2, 3}, voters)
	require.Equal(t, []uint64{4, 5}, learners)
	r, here := p.On(4)
	require.True(t, here)
	require.Equal(t, Replica{ID: 4, Node: 4, Reader: true}, r)

	require.True(t, p.Renew(4, 6), "it comes back under a new id")
	require.Equal(t, Replica{ID: 6, Node: 4, New: true, Reader: true}, p.Readers[0])
	require.True(t, p.Renew(5, 7))
	require.True(t, p.Survives())
	require.True(t, p.Renew(1, 8))
	require.True(t, p.Survives(), "two of three voters know what they stored")
	require.True(t, p.Renew(2, 9))
	require.False(t, p.Survives(), "read replicas make up for no voter")
	require.NotContains(t, p.Voters(), uint64(4))

	running := func(ids ...uint64) map[uint64]Kept {
		kept := map[uint64]Kept{1: {Ended: true}, 2: {Ended: true}, 3: {Ended: true}, 4: {}, 5: {}}
		for _, id := range ids {
			kept[id] = Kept{Made: true, Runs: true, Candidacy: Candidacy{Voters: []uint64{1, 2, 3}}}
		}
		return kept
	}
	p = three()
	p.Add(4, 4, true)
	p.Add(5, 5, true)
	p.Settle()
	require.True(t, p.Remove(5))
	require.Equal(t, FateLost, p.Fate(running(3, 4, 5), func(uint64) bool { return false }))
	require.Equal(t, FateAlive, p.Fate(running(2, 3), func(uint64) bool { return false }))

	l := Log{Placement: p}
	next := l.BeginAnew(20)
	require.Equal(t, uint64(24), next)
	require.Equal(t, []uint64{20, 21, 22}, l.Founders)
	require.Equal(t, []Replica{{ID: 23, Node: 4, New: true, Reader: true}}, l.Readers)
}

func TestReadReplicasNeedTheLevelThatAllowsThem(t *testing.T) {
	rule := Rule{Readers: []ReadReplicas{reads("s", 1)}}
	require.Equal(t, "read replicas dc=s:1", rule.String())
	s := places("a", "s")
	placed := Placement{Readers: []Replica{{ID: 9, Node: 2, Reader: true}}}
	for _, c := range []Change{{Rules: map[string]Rule{"": rule}}, {Put: []Log{{Config: Config{Rule: &rule}}}}, {Put: []Log{{Placement: placed}}}} {
		s.Level = 2
		require.ErrorContains(t, Allow(s, c), "this needs feature level 3")
		s.Level = 3
		require.Nil(t, Allow(s, c))
	}
}
