package node

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

// Replicas move until the rule of their log is kept, and the status says what is missing.
func TestReplicasFollowTheLabelsOfTheirNodes(t *testing.T) {
	at := map[string]cluster.Label{"a": "dc=x", "b": "dc=y", "c": "dc=z", "d": "dc=z"}
	c := newClusterWith(t, func(o *settings.Options) {
		if at[o.Name] != "" {
			o.Labels = []cluster.Label{at[o.Name]}
		}
	}, slices.Sorted(maps.Keys(at))...)
	n := c.nodes["a"]
	logOf := func(name string) LogStatus {
		status, err := n.ClusterStatus(t.Context(), anyone)
		require.NoError(t, err)
		for _, l := range status.Logs {
			if l.Name == name {
				return l
			}
		}
		return LogStatus{}
	}
	c.eventually("all nodes to have entered their labels", func() bool {
		status, err := n.ClusterStatus(t.Context(), anyone)
		return err == nil && !slices.ContainsFunc(status.Nodes, func(n NodeStatus) bool { return len(n.Labels) == 0 }) && len(status.Nodes) == len(at)
	})

	_, err := n.CreateLog(t.Context(), anyone, "orders", settings.Config{Rule: &cluster.Rule{In: []cluster.Label{"dc=nowhere"}}})
	require.ErrorIs(t, err, &record.Refusal{Reason: record.Precondition})
	_, err = n.CreateLog(t.Context(), anyone, "orders", settings.Config{Replicas: 2, Rule: &cluster.Rule{In: []cluster.Label{"dc=z"}}})
	require.NoError(t, err)
	require.Equal(t, []string{"c", "d"}, voters(logOf("orders")))

	require.NoError(t, n.SetDefaultRule(t.Context(), anyone, "", cluster.Rule{Spread: "dc"}))
	_, err = n.ConfigureLog(t.Context(), anyone, "orders", settings.Config{Replicas: 3, Rule: new(cluster.Rule)})
	require.NoError(t, err)
	spread := func() bool {
		l := logOf("orders")
		on := voters(l)
		return l.Healthy && len(on) == 3 && on[0] == "a" && on[1] == "b"
	}
	c.eventually("the default rule to hold for a log without one", spread)
	require.Equal(t, &cluster.Rule{Spread: "dc"}, logOf("orders").Rule)

	// A node that comes back elsewhere: two datacenters are left, and both have one.
	for _, name := range []string{"a", "b"} {
		at[name] = ""
		c.stop(name)
		c.start(name, nil)
	}
	n = c.nodes["c"]
	c.eventually("the status to say what is missing", func() bool {
		l := logOf("orders")
		return !l.Healthy && slices.Contains(l.Unmet, "all nodes that voters may be on have dc=z, and two values of dc are needed")
	})
}

// Where the others have reasons not to lead either, a log would go to and fro for ever.
func TestADrainedNodeHandsALogOverLessAndLessOften(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *settings.Options) { o.KeepLeaders = true }, "a", "b", "c")
	_, err := c.nodes["b"].CreateLog(t.Context(), anyone, "orders", settings.Config{})
	require.NoError(t, err)
	c.healthy()
	require.NoError(t, c.nodes["b"].DrainNode(t.Context(), anyone, "a", false))
	drained, _ := c.replicaOf("a", "orders")
	began, turns := time.Now(), 0
	for turns < 5 {
		leader := c.nodes[c.leader("orders", "a")].logs.Named("orders").Replica
		term, next := leader.Status().Term, uint64(0)
		if leader.HandOver(t.Context(), drained) != nil {
			continue // a has yet to catch up
		}
		c.eventually("another leads again", func() bool {
			next = c.nodes[c.leader("orders", "a")].logs.Named("orders").Replica.Status().Term
			return next > term
		})
		if next == term+2 { // that of a lies between; a machine that is slow may hold other elections
			turns++
		}
	}
	require.Greater(t, time.Since(began), (1+2+4+8)*background.LookEvery)
}

// voters are the nodes whose replicas vote.
func voters(l LogStatus) (nodes []string) {
	for _, r := range l.Replicas {
		if r.Role == Voter {
			nodes = append(nodes, r.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}
