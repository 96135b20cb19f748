package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/replica/core"
)

// The node that founded a cluster is needed until the change that lets the others vote has
// committed. A cluster that calls itself healthy before cannot lose it.
func TestALogWhoseVotersAreBeingChangedIsNotHealthy(t *testing.T) {
	state := &cluster.State{Nodes: map[uint64]cluster.Node{
		1: {ID: 1, Name: "a", Catalog: 1, Votes: true},
		2: {ID: 2, Name: "b", Catalog: 2, Votes: true},
	}}
	at := hosted.LogReport{
		Leading: true, Term: 1, Voters: []uint64{1, 2}, Outgoing: []uint64{1},
		Peers: []core.Peer{{Replica: 1, Active: true, State: "StateReplicate"}, {Replica: 2, Active: true, State: "StateReplicate"}},
	}
	status := func() LogStatus {
		reports := map[uint64]report{
			1: {Logs: map[uint64]hosted.LogReport{cluster.CatalogID: at}},
			2: {Logs: map[uint64]hosted.LogReport{cluster.CatalogID: {Term: 1, Voters: at.Voters, Outgoing: at.Outgoing}}},
		}
		st := &Statuses{}
		return st.logStatus(st.catalogAsLog(state), state, reports)
	}
	changing := status()
	require.False(t, changing.Healthy)
	require.Equal(t, []uint64{1}, logVoters(state, []LogStatus{changing})[0].Outgoing)
	require.Contains(t, changing.Replicas[0].Problem, "needed until the change of voters has committed")
	require.Empty(t, changing.Replicas[1].Problem)

	at.Leading = false // and now nobody leads
	require.Contains(t, status().Replicas[0].Problem, "needed until the change of voters has committed")

	at.Leading, at.Outgoing = true, nil
	require.True(t, status().Healthy)
	require.Empty(t, logVoters(state, []LogStatus{status()})[0].Outgoing)
}

// A log of which nothing survived a recovery keeps its replicas, on nodes that are no members any more.
func TestAReplicaOnANodeThatHasLeftShowsItsName(t *testing.T) {
	state := &cluster.State{
		Nodes: map[uint64]cluster.Node{1: {ID: 1, Name: "a", Catalog: 1, Votes: true}},
		Gone:  map[uint64]string{2: "b"},
	}
	l := cluster.Log{ID: 7, Name: "orders", Placement: cluster.Placement{Replicas: []cluster.Replica{{ID: 8, Node: 2}, {ID: 9, Node: 3}}}}
	out := (&Statuses{}).logStatus(l, state, map[uint64]report{1: {}})
	require.False(t, out.Healthy)
	for i, name := range []string{"b", "node 3"} {
		require.Equal(t, name, out.Replicas[i].Node)
		require.Equal(t, Unreachable, out.Replicas[i].State)
		require.Equal(t, "the node has left the cluster", out.Replicas[i].Problem)
	}
}
