package node

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

// holders are how many replicas a log has by now, all of them settled.
func (c *testCluster) holders(log string) int {
	for _, n := range c.nodes {
		l := n.catalog.Load().Shown.Load().Logs[log]
		if !l.Settled() {
			return 0
		}
		return len(l.Replicas)
	}
	return 0
}

// joined starts nodes that are admitted to the cluster of a.
func (c *testCluster) joined(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.start(name, []string{c.addresses["a"]})
		c.eventually(name+" is a member", func() bool { return c.nodes[name].catalog.Load() != nil })
	}
}

func TestALogThatIsCreatedTooEarlyGetsItsReplicasLater(t *testing.T) {
	c := newCluster(t, "a")
	a := c.nodes["a"]
	info, err := a.CreateLog(t.Context(), anyone, "orders", settings.Config{Replicas: 3})
	require.NoError(t, err)
	require.Equal(t, 3, info.Config.Replicas, "what it wants")
	require.Len(t, info.Replicas, 1, "what it has")
	_, err = a.CreateLog(t.Context(), anyone, "any", settings.Config{})
	require.NoError(t, err)
	_, err = a.CreateLog(t.Context(), anyone, "single", settings.Config{Replicas: 1})
	require.NoError(t, err)
	c.append("orders", "early")
	status, err := a.ClusterStatus(t.Context(), anyone)
	require.NoError(t, err)
	for _, l := range status.Logs {
		missing := 0
		for _, r := range l.Replicas {
			if r.Role == verbs.Missing {
				missing++
			}
		}
		require.Equal(t, map[string]int{"orders": 2}[l.Name], missing, l.Name)
		require.Equal(t, l.Name != "orders", l.Healthy, l.Name)
	}

	c.joined("b", "c")
	c.healthy()
	require.Equal(t, 3, c.holders("orders"))
	require.Equal(t, 3, c.holders("any"))
	require.Equal(t, 1, c.holders("single"))
	c.append("orders", "late")
	for name := range c.nodes {
		texts, err := c.values(name, "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
		require.NoError(t, err)
		require.Equal(t, []string{"early", "late"}, texts)
	}
}

func TestTheNumberOfReplicasIsConfigured(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	a := c.nodes["a"]
	for _, durability := range []settings.Durability{settings.Disk, settings.Memory} {
		log := durability.String()
		_, err := a.CreateLog(t.Context(), anyone, log, settings.Config{Replicas: 1, Durability: durability})
		require.NoError(t, err)
		c.append(log, "one")
		for _, replicas := range []int{3, 2, 1, 3} {
			info, err := a.ConfigureLog(t.Context(), anyone, log, settings.Config{Replicas: replicas, Durability: durability})
			require.NoError(t, err)
			require.Equal(t, replicas, info.Config.Replicas)
			c.eventually(fmt.Sprint(replicas, " replicas"), func() bool { return c.holders(log) == replicas })
			c.healthy()
			c.append(log, "more")
		}
		texts, err := c.values(c.leader(log), log, reading.Request{Consistency: reading.ConsistencyLinearizable})
		require.NoError(t, err)
		require.Equal(t, []string{"one", "more", "more", "more", "more"}, texts)
	}
	_, err := a.ConfigureLog(t.Context(), anyone, "disk", settings.Config{Replicas: cluster.MaxReplicas + 1})
	requireReason(t, record.Invalid, err)
}

func TestReplicasAreSpreadOntoNewNodes(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	for i := range 6 {
		log := fmt.Sprint("log", i)
		_, err := c.nodes["a"].CreateLog(t.Context(), anyone, log, settings.Config{Replicas: 3})
		require.NoError(t, err)
		c.append(log, "kept")
	}
	c.joined("d", "e")
	held := func() map[string]int {
		s := c.nodes["a"].catalog.Load().Shown.Load()
		held := map[string]int{}
		for _, l := range s.Logs {
			for _, r := range l.Replicas {
				held[s.Nodes[r.Node].Name]++
			}
		}
		return held
	}
	require.Equal(t, map[string]int{"a": 6, "b": 6, "c": 6}, held())
	c.eventually("a reaches the new ones", func() bool {
		left, err := c.nodes["a"].Rebalance(t.Context(), anyone)
		require.NoError(t, err)
		return left > 0 && c.nodes["a"].Reaches(4) && c.nodes["a"].Reaches(5)
	})
	c.eventually("nothing is left to move", func() bool {
		left, err := c.nodes["a"].Rebalance(t.Context(), anyone)
		require.NoError(t, err)
		return left == 0
	})
	for name, replicas := range held() {
		require.Contains(t, []int{3, 4}, replicas, name)
	}
	c.healthy()
	for i := range 6 {
		log := fmt.Sprint("log", i)
		texts, err := c.values(c.leader(log), log, reading.Request{Consistency: reading.ConsistencyLinearizable})
		require.NoError(t, err)
		require.Equal(t, []string{"kept"}, texts)
	}
}
