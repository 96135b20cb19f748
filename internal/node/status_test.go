package node

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVotersAreToldAsSuchAlsoWhenNobodyLeads(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c", "d")
	_, err := c.nodes["a"].CreateLog(t.Context(), anyone, "orders", Config{Replicas: 3})
	require.NoError(t, err)
	var holders []string
	for _, r := range c.healthy().Logs[1].Replicas {
		holders = append(holders, r.Node)
	}
	require.Len(t, holders, 3)
	other := slices.DeleteFunc([]string{"a", "b", "c", "d"}, func(name string) bool { return slices.Contains(holders, name) })[0]

	c.stop(holders[0])
	c.stop(holders[1])
	c.allVote(other, map[string]ReplicaState{holders[0]: Unreachable, holders[1]: Unreachable, holders[2]: Unknown, other: Unknown})
	c.stop(holders[2])
	c.allVote(other, map[string]ReplicaState{holders[0]: Unreachable, holders[1]: Unreachable, holders[2]: Unreachable, other: Unknown})
}

// votes reports whether a replica of the catalog has a vote, as some node knows.
func (c *testCluster) votes(replica uint64) bool {
	for _, n := range c.nodes {
		voters, _ := n.catalog.Load().shown.Load().CatalogMembers()
		return slices.Contains(voters, replica)
	}
	return false
}

// allVote asks a node how its cluster is once nobody leads: every replica that
// should be is a voter, in the state of its node.
func (c *testCluster) allVote(name string, states map[string]ReplicaState) {
	c.t.Helper()
	var status ClusterStatus
	c.eventually("nobody leads", func() bool {
		var err error
		status, err = c.nodes[name].ClusterStatus(c.t.Context(), anyone)
		require.NoError(c.t, err)
		slow := slices.ContainsFunc(status.Nodes, func(n NodeStatus) bool { return n.Alive != (c.nodes[n.Name] != nil) })
		return !slow && !slices.ContainsFunc(status.Logs, func(l LogStatus) bool { return l.Leader != "" })
	})
	for _, l := range status.Logs {
		for _, r := range l.Replicas {
			role := Voter
			if l.Name == catalogName && !c.votes(r.Replica) {
				role = Learner
			}
			require.Equal(c.t, role, r.Role, "%s on %s", l.Name, r.Node)
			require.Equal(c.t, states[r.Node], r.State, "%s on %s", l.Name, r.Node)
		}
	}
}
