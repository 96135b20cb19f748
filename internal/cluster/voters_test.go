package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// members is a state of nodes 1 to n.
func members(n uint64) *State {
	s := NewState()
	for id := uint64(1); id <= n; id++ {
		_ = s.Fold(Change{Node: []Node{{ID: id, Name: fmt.Sprint("node", id), Catalog: id}}})
	}
	return &s
}

// seen is a view in which some nodes are down, and some of those lost.
func seen(down, lost []uint64) View {
	return View{
		Alive: func(node uint64) bool { return !slices.Contains(down, node) },
		Lost:  func(node uint64) bool { return slices.Contains(lost, node) },
	}
}

func TestVotesGoToThoseWhoCanUseThem(t *testing.T) {
	type ids = []uint64
	for _, row := range []struct {
		what           string
		nodes          uint64
		votes, leaving ids
		down, lost     ids
		then           ids
	}{
		{"the first one", 1, nil, nil, nil, nil, ids{1}},
		{"of two both", 2, ids{1}, nil, nil, nil, ids{1, 2}},
		{"of three all", 3, ids{1, 2}, nil, nil, nil, ids{1, 2, 3}},
		{"of four three", 4, ids{1, 2, 3}, nil, nil, nil, ids{1, 2, 3}},
		{"of five all", 5, ids{1, 2, 3}, nil, nil, nil, ids{1, 2, 3, 4, 5}},
		{"of seven five", 7, ids{1, 2, 3}, nil, nil, nil, ids{1, 2, 3, 4, 5}},
		{"a new one that is down has none", 3, ids{1, 2}, nil, ids{3}, nil, ids{1, 2}},
		{"one that is down keeps it for a while", 4, ids{1, 2, 3}, nil, ids{3}, nil, ids{1, 2, 3}},
		{"one that is lost gives it to another", 4, ids{1, 2, 3}, nil, ids{3}, ids{3}, ids{1, 2, 4}},
		{"two that are lost", 5, ids{1, 2, 3}, nil, ids{1, 2}, ids{1, 2}, ids{3, 4, 5}},
		{"nobody could take it", 3, ids{1, 2, 3}, nil, ids{3}, ids{3}, ids{1, 2, 3}},
		{"only one that is down too could", 4, ids{1, 2, 3}, nil, ids{3, 4}, ids{3, 4}, ids{1, 2, 3}},
		{"one that comes back gets none while others have them", 4, ids{1, 2, 4}, nil, nil, nil, ids{1, 2, 4}},
		{"one on its way out", 4, ids{1, 2, 3}, ids{2}, nil, nil, ids{1, 3, 4}},
		{"one on its way out, of two", 2, ids{1, 2}, ids{2}, nil, nil, ids{1}},
		{"one on its way out, of five", 5, ids{1, 2, 3, 4, 5}, ids{1}, nil, nil, ids{2, 3, 4}},
		{"the only one keeps it until another can have it", 2, ids{1}, ids{1}, ids{2}, nil, ids{1}},
	} {
		s := members(row.nodes)
		for id, n := range s.Nodes {
			n.Votes, n.Leaving = slices.Contains(row.votes, id), slices.Contains(row.leaving, id)
			s.Nodes[id] = n
		}
		v := seen(row.down, row.lost)
		if due := Due(s, v); len(due) > 0 {
			require.NoError(t, s.Fold(Enact(s, due)), row.what)
		}
		voters, learners := CatalogMembers(s)
		require.Equal(t, row.then, voters, row.what)
		for _, id := range learners {
			require.NotContains(t, voters, id, row.what)
		}
		require.Empty(t, Due(s, v), "%s: then there is nothing left to do", row.what)
	}
}

// The loss of a datacenter leaves the catalog a majority, where logs are spread by default.
func TestVotesOnTheCatalogAreSpreadAsTheDefaultRuleSays(t *testing.T) {
	type ids = []uint64
	for _, row := range []struct {
		what       string
		places     string // of nodes 1 and so on
		votes      ids
		down, lost ids
		then       ids
	}{
		{"three times three", "aaabbbccc", ids{1, 2, 3, 4, 5}, nil, nil, ids{1, 2, 4, 5, 7}},
		{"three times two", "aabbcc", ids{1, 2, 3, 4, 5}, nil, nil, ids{1, 2, 3, 4, 5}},
		{"two and a half", "aaabbbc", ids{1, 2, 3, 4, 5}, nil, nil, ids{1, 2, 4, 5, 7}},
		{"two and a half, of four", "aabc", ids{1, 2, 3}, nil, nil, ids{1, 3, 4}},
		{"one is down for a while", "aabbcc", ids{1, 2, 3, 4, 5}, ids{5, 6}, nil, ids{1, 2, 3, 4, 5}},
		{"one is lost, and its vote can be used elsewhere", "aabc", ids{1, 3, 4}, ids{4}, ids{4}, ids{1, 2, 3}},
		{"it comes back", "aabc", ids{1, 2, 3}, nil, nil, ids{1, 3, 4}},
		{"a node of it is lost", "aabbcc", ids{1, 2, 3, 4, 5}, ids{5}, ids{5}, ids{1, 2, 3, 4, 6}},
		{"of two values both have some", "aaaaabb", ids{1, 2, 3, 4, 5}, nil, nil, ids{1, 2, 3, 6, 7}},
		{"without labels", "     ", ids{1, 2, 3}, nil, nil, ids{1, 2, 3, 4, 5}},
	} {
		s := members(uint64(len(row.places)))
		s.Rules[""] = Rule{Spread: "dc"}
		for id, n := range s.Nodes {
			n.Votes = slices.Contains(row.votes, id)
			if place := row.places[id-1]; place != ' ' {
				n.Labels = []Label{Label("dc=" + string(place))}
			}
			s.Nodes[id] = n
		}
		v := seen(row.down, row.lost)
		if due := Due(s, v); len(due) > 0 {
			require.NoError(t, s.Fold(Enact(s, due)), row.what)
		}
		voters, _ := CatalogMembers(s)
		require.Equal(t, row.then, voters, row.what)
		require.Empty(t, Due(s, v), "%s: then there is nothing left to do", row.what)
	}
}

func TestANodeRetiresWhenItHoldsNothing(t *testing.T) {
	s := members(3)
	leaving := s.Nodes[3]
	leaving.Leaving, leaving.Votes = true, true
	s.Nodes[3] = leaving
	require.Empty(t, retired(s), "it votes")
	leaving.Votes = false
	s.Nodes[3] = leaving
	require.Equal(t, []uint64{3}, retired(s))
	s.Logs["orders"] = Log{Name: "orders", Placement: three()}
	require.Empty(t, retired(s), "it has a replica of a log")
}

func TestANodeOnItsWayOutIsRetiredWhenItHoldsNothing(t *testing.T) {
	s := voting(3)
	s.placed("orders", 1, 3)
	n := s.Nodes[3]
	n.Leaving, n.Votes = true, false
	s.Nodes[3] = n
	c := Retire(s)
	require.True(t, c.Empty(), "it holds a replica")
	require.True(t, s.Leaving())
	delete(s.Logs, "orders")
	require.NoError(t, s.Fold(Retire(s)))
	require.Len(t, s.Nodes, 2)
	require.False(t, s.Leaving())
}
