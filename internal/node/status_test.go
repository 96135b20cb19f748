package node

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
)

func TestVotersAreReportedAsSuchAlsoWhenNobodyLeads(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c", "d", "e")
	_, err := c.nodes["a"].CreateLog(t.Context(), anyone, "orders", settings.Config{Replicas: 3})
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
