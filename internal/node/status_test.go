package node

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

func TestVotersAreReportedAsSuchAlsoWhenNobodyLeads(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c", "d", "e")
	_, err := c.createLog("a", "orders", settings.Config{Replicas: 3})
	require.NoError(t, err)
	var holders []string
	for _, r := range c.healthy().Logs[1].Replicas {
		holders = append(holders, r.Node)
	}
	require.Len(t, holders, 3)
	others := slices.DeleteFunc([]string{"a", "b", "c", "d", "e"}, func(name string) bool { return slices.Contains(holders, name) })

	states := map[string]verbs.ReplicaState{holders[2]: verbs.Unknown, others[0]: verbs.Unknown}
	for _, name := range []string{holders[0], holders[1], others[1]} { // all five vote on the catalog
		c.stop(name)
		states[name] = verbs.Unreachable
	}
	c.allVote(others[0], states)
	c.stop(holders[2])
	states[holders[2]] = verbs.Unreachable
	c.allVote(others[0], states)
}

// allVote asks a node how its cluster is once nobody leads: every replica is a
// voter, in the state of its node.
func (c *testCluster) allVote(name string, states map[string]verbs.ReplicaState) {
	c.t.Helper()
	var status verbs.ClusterStatus
	c.eventually("nobody leads", func() bool {
		var err error
		status, err = c.nodes[name].ClusterStatus(c.t.Context(), anyone)
		require.NoError(c.t, err)
		slow := slices.ContainsFunc(status.Nodes, func(n verbs.NodeStatus) bool { return n.Alive != (c.nodes[n.Name] != nil) })
		return !slow && !slices.ContainsFunc(status.Logs, func(l verbs.LogStatus) bool { return l.Leader != "" })
	})
	for _, n := range status.Nodes {
		if n.Alive {
			require.Equal(c.t, c.nodes[n.Name].Memory().Size(), n.MemoryTotal, n.Name)
		}
	}
	for _, l := range status.Logs {
		for _, r := range l.Replicas {
			require.Equal(c.t, verbs.Voter, r.Role, "%s on %s", l.Name, r.Node)
			require.Equal(c.t, states[r.Node], r.State, "%s on %s", l.Name, r.Node)
		}
	}
}

func TestARefusalIsReportedOnceForEachNodeUntilItsReasonChanges(t *testing.T) {
	t.Parallel()
	said := &lines{}
	n := newNode(settings.Options{Logger: said.logger()}, nil, new(datadir.Me), nil, nil)
	a, b := peer.Node{ID: 1, Name: "a"}, peer.Node{ID: 2, Name: "b"}
	n.me.Store(&datadir.Identity{NodeID: 3, Seeds: []cluster.Node{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}}})
	n.catalog.Store(n.opener.NewCatalog(nil))
	for range 3 {
		n.admission.RefusedBy(a, "node 3 was removed")
		n.admission.RefusedBy(b, "node 3 is unknown here")
	}
	require.Equal(t, 2, said.count("another node refuses this one"))
	n.admission.RefusedBy(b, "node 3 was removed")
	require.Equal(t, 3, said.count("another node refuses this one"))
	require.ErrorContains(t, n.Ready(), "was removed")

	n.peers.Status.Changed(a.ID, true)
	require.Empty(t, n.peers.Status.Refusal())
	n.peers.Status.Changed(a.ID, false)
	n.admission.RefusedBy(a, "node 3 was removed")
	require.Equal(t, 4, said.count("another node refuses this one"), "there was a connection in between")

	for id := range uint64(1000) {
		n.admission.RefusedBy(peer.Node{ID: 100 + id}, "another cluster")
	}
	require.Len(t, n.peers.Status.ByID, 3, "what unknown peers say is remembered once")
}

// A node without a replica said "0 0 0" and that nothing is wrong.
func TestANodeListsLogsThatItDoesNotHold(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c", "d")
	_, err := c.createLog("a", "orders", settings.Config{Replicas: 3})
	require.NoError(t, err)
	for _, text := range numbered(0, 10) {
		c.append("orders", text)
	}
	var holders []string
	for _, r := range c.healthy().Logs[1].Replicas {
		holders = append(holders, r.Node)
	}
	without := slices.DeleteFunc([]string{"a", "b", "c", "d"}, func(name string) bool { return slices.Contains(holders, name) })[0]
	list := func() verbs.Info {
		infos, err := c.nodes[without].ListLogs(t.Context(), anyone, false, nil)
		require.NoError(t, err)
		require.Len(t, infos, 1)
		return infos[0]
	}
	c.eventually("the leader shows it", func() bool {
		i := list()
		return !i.Unknown && i.End == 10 && i.Leader == c.addresses[c.leader("orders")] && i.BytesUsed > 0 && i.Problem == ""
	})

	c.stop(holders[0])
	c.stop(holders[1])
	c.eventually("the last one has no leader", func() bool {
		i := list()
		return !i.Unknown && i.End == 10 && i.Leader == "" && i.Problem == "it has no leader at the moment"
	})
	c.stop(holders[2])
	c.eventually("nobody knows", func() bool {
		i := list()
		return i.Unknown && i.Problem == "no node that holds it answers"
	})
}

// An empty list would say that there are no logs.
func TestANodeThatCannotAskDoesNotListNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.healthy()
	c.stop("a")
	c.stop("b")
	_, err := c.nodes["c"].ListLogs(t.Context(), anyone, false, nil)
	requireReason(t, record.NotLeader, err)
}
