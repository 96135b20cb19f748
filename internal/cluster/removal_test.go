package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestANodeThatHoldsNothingIsRemoved(t *testing.T) {
	s := voting(3)
	s.placed("orders", 1, 1)
	change, refusal := RemoveNode(s, "node2")
	require.Nil(t, refusal)
	require.True(t, change.Node[0].Leaving)
	_, refusal = RemoveNode(s, "node1")
	require.ErrorContains(t, refusal, "replace-node node1")
	_, refusal = RemoveNode(s, "none")
	require.ErrorContains(t, refusal, "node1, node2, node3")
	_, refusal = RemoveNode(voting(1), "node1")
	require.ErrorContains(t, refusal, "the last one in the cluster")
	require.NoError(t, s.Fold(Change{Announce: []Announced{{Name: "d"}}}))
	change, refusal = RemoveNode(s, "d")
	require.Nil(t, refusal)
	require.Equal(t, []string{"d"}, change.Withdraw)
}

func TestTheReplicasOfANodeGoToAnother(t *testing.T) {
	type ids = []uint64
	for _, row := range []struct {
		what    string
		nodes   uint64
		wants   int
		on      ids
		down    ids
		then    ids
		refused string
	}{
		{"it has none there", 4, 3, ids{1, 2, 3}, nil, ids{1, 2, 4}, ""},
		{"it holds one already, and a third node does not", 5, 3, ids{1, 3, 4}, nil, ids{1, 2, 4}, ""},
		{"the third node is down", 5, 3, ids{1, 3, 4}, ids{2, 5}, nil, "wants as many as it has"},
		{"there is no other, and the log wants no more", 4, 0, ids{1, 2, 3, 4}, nil, ids{1, 2, 4}, ""},
		{"there is no other, and the log wants all", 4, 4, ids{1, 2, 3, 4}, nil, nil, "log configure orders --replicas"},
		{"the node has no replica", 4, 0, ids{1, 2, 4}, nil, ids{1, 2, 4}, ""},
	} {
		s := voting(row.nodes)
		s.placed("orders", row.wants, row.on...)
		change, refusal := ReplaceNode(s, "node3", "node4", seen(row.down, nil).Alive)
		if row.refused != "" {
			require.ErrorContains(t, refusal, row.refused, row.what)
			continue
		}
		require.Nil(t, refusal, row.what)
		require.NoError(t, s.Fold(change))
		require.Equal(t, row.then, s.on("orders"), row.what)
		require.True(t, s.Nodes[3].Leaving, row.what)
	}
}

func TestANodeIsNotReplacedByTwo(t *testing.T) {
	s := voting(5)
	s.placed("orders", 3, 1, 2, 3)
	all := seen(nil, nil).Alive
	change, refusal := ReplaceNode(s, "node3", "node4", all)
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(change))
	_, refusal = ReplaceNode(s, "node3", "node5", all)
	require.ErrorContains(t, refusal, `on their way to node "node4"`)
	_, refusal = ReplaceNode(s, "node3", "node4", all)
	require.Nil(t, refusal, "the same once more")
	_, refusal = ReplaceNode(s, "node4", "node3", all)
	require.ErrorContains(t, refusal, `from node "node4" to "node3", which is being removed; other nodes: node1, node2, node4, node5`)
	renamed := s.Nodes[1]
	renamed.Name = "west"
	s.Nodes[1] = renamed
	require.ErrorContains(t, s.NoNode("x"), "nodes: node2, node4, node5, west", "by name, in whichever order they came")
}
