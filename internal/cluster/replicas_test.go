package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// placed adds a log with a replica on each of some nodes.
func (s *State) placed(name string, replicas int, nodes ...uint64) {
	l := Log{ID: s.NextLog, Name: name, Config: Config{Replicas: replicas}}
	for i, n := range nodes {
		l.Replicas = append(l.Replicas, Replica{ID: s.NextReplica + uint64(i), Node: n})
	}
	_ = s.Fold(Change{Put: []Log{l}})
}

// on are the nodes of a log's replicas, sorted.
func (s *State) on(log string) (nodes []uint64) {
	for _, r := range s.Logs[log].Replicas {
		nodes = append(nodes, r.Node)
	}
	slices.Sort(nodes)
	return nodes
}

// voting is a state in which nobody has to get a vote.
func voting(nodes uint64) *State {
	s := members(nodes)
	_ = s.Fold(Enact(s, votesDue(s, seen(nil, nil))))
	return s
}

func TestALogWantsItsReplicas(t *testing.T) {
	s := members(2)
	require.Equal(t, 2, WantedReplicas(s, &Log{}), "one that does not say: as many as there are nodes")
	require.Equal(t, 5, WantedReplicas(s, &Log{Config: Config{Replicas: 5}}), "one that says: as it says")
	require.NoError(t, s.Fold(Change{Announce: []Announced{{Name: "c"}}}))
	require.Equal(t, 3, WantedReplicas(s, &Log{}), "a peer of the cluster has not come yet")
	require.NoError(t, s.Fold(Change{Announce: []Announced{{Name: "d"}, {Name: "e"}}}))
	require.Equal(t, 3, WantedReplicas(s, &Log{}))
	kept := three()
	require.Equal(t, 3, WantedReplicas(members(1), &Log{Placement: kept}), "none is taken away because nodes went")
}

func TestALogIsPlacedOnWhatThereIs(t *testing.T) {
	all := func(uint64) bool { return true }
	s := members(2)
	require.Len(t, Place(s, &Log{ID: 1, Config: Config{Replicas: 3}}, all), 2)
	require.Empty(t, Place(new(State), &Log{ID: 1}, all))
	s = members(5)
	s.placed("busy", 0, 1, 2)
	nodes := Place(s, &Log{ID: 9, Config: Config{Replicas: 3}}, all)
	require.ElementsMatch(t, []uint64{3, 4, 5}, nodes, "those with the fewest")
	nodes = Place(s, &Log{ID: 9, Config: Config{Replicas: 3}}, seen([]uint64{4}, nil).Alive)
	require.NotContains(t, nodes, uint64(4))
	nodes = Place(s, &Log{ID: 9, Config: Config{Replicas: 5}}, seen([]uint64{4}, nil).Alive)
	require.Equal(t, uint64(4), nodes[4], "one that is down does not begin")
	first := map[uint64]bool{}
	for id := range uint64(3) {
		first[Place(members(3), &Log{ID: id}, all)[0]] = true
	}
	require.Len(t, first, 3, "they begin on different nodes")
}

func TestALogGetsItsReplicasAsNodesCome(t *testing.T) {
	s := voting(1)
	s.placed("orders", 3, 1)
	s.placed("any", 0, 1)
	s.placed("one", 1, 1)
	require.Empty(t, Due(s, seen(nil, nil)), "there is no node for it")
	*s = func() State {
		grown := s.Clone()
		for id := uint64(2); id <= 3; id++ {
			grown.Nodes[id] = Node{ID: id, Catalog: 100 + id, Votes: true}
		}
		return grown
	}()
	require.Empty(t, Due(s, seen([]uint64{2, 3}, nil)), "not on nodes that are down")
	for range 2 {
		due := Due(s, seen(nil, nil))
		require.Len(t, due, 2)
		require.NoError(t, s.Fold(Enact(s, due)))
		require.Empty(t, Due(s, seen(nil, nil)), "one after the other")
		for name, l := range s.Logs {
			l.Settle()
			s.Logs[name] = l
		}
	}
	require.Equal(t, []uint64{1, 2, 3}, s.on("orders"))
	require.Equal(t, []uint64{1, 2, 3}, s.on("any"))
	require.Equal(t, []uint64{1}, s.on("one"))
	require.Empty(t, Due(s, seen(nil, nil)))
	ids := map[uint64]bool{}
	for _, l := range s.Logs {
		for _, r := range l.Replicas {
			require.False(t, ids[r.ID], "no id is used twice")
			ids[r.ID] = true
		}
	}
}

func TestALogWithTooManyReplicasLosesThoseThatAreDownFirst(t *testing.T) {
	s := voting(3)
	s.placed("orders", 2, 1, 2, 3)
	due := Due(s, seen([]uint64{2}, nil))
	require.Equal(t, []Action{{Kind: RemoveReplica, Log: "orders", Node: 2}}, due)
	require.NoError(t, s.Fold(Enact(s, due)))
	require.Equal(t, []uint64{1, 3}, s.on("orders"))
	l := s.Logs["orders"]
	_, here := l.On(2)
	require.True(t, here, "it stays until the log's leader has let it go")
}

func TestNotAllLogsMoveAtOnce(t *testing.T) {
	s := voting(3)
	for i := range 3 * MaxMoving {
		s.placed(fmt.Sprint("log", i), 3, 1)
	}
	due := Due(s, seen(nil, nil))
	require.Len(t, due, MaxMoving)
	require.NoError(t, s.Fold(Enact(s, due)))
	require.Empty(t, Due(s, seen(nil, nil)))
}

func TestReplicasAreSpreadEvenly(t *testing.T) {
	s := voting(3)
	for i := range 60 {
		s.placed(fmt.Sprint("log", i), 3, 1, 2, 3)
	}
	for id := uint64(4); id <= 6; id++ {
		s.Nodes[id] = Node{ID: id, Catalog: 1000 + id, Votes: id < 6}
	}
	require.Empty(t, Due(s, seen(nil, nil)), "not unless an operator asks for it")
	require.NoError(t, s.Fold(Change{Spread: new(true)}))
	for rounds := 0; s.Spreading; rounds++ {
		require.Less(t, rounds, 20)
		due := Due(s, seen(nil, nil))
		require.LessOrEqual(t, len(due), MaxMoving)
		require.NoError(t, s.Fold(Enact(s, due)))
		for name, l := range s.Logs {
			l.Settle()
			s.Logs[name] = l
		}
	}
	load := s.load()
	for id := uint64(1); id <= 6; id++ {
		require.Equal(t, 30, load[id], "node %d", id)
	}
	for name := range s.Logs {
		require.Len(t, slices.Compact(s.on(name)), 3, "%s: no node holds two", name)
	}
}

func TestNothingIsSpreadOntoOrFromNodesThatAreDown(t *testing.T) {
	s := voting(3)
	for i := range 6 {
		s.placed(fmt.Sprint("log", i), 1, 1)
	}
	for _, move := range SpreadReplicas(s, seen([]uint64{2}, nil)) {
		require.Equal(t, uint64(3), move.To)
	}
	require.Empty(t, SpreadReplicas(s, seen([]uint64{1}, nil)))
	require.Len(t, SpreadReplicas(s, seen(nil, nil)), 4)
}
