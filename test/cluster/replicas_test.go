package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// The one that is created while the cluster is being formed is no different from
// those after.
func TestALogThatIsCreatedWhileTheClusterIsFormedGetsItsReplicas(t *testing.T) {
	t.Parallel()
	c := startWaiting(t, Options{Nodes: 3})
	ctx, cancel := withPatience()
	defer cancel()
	formed := make(chan error, 1)
	go func() {
		_, err := c.nodes[2].client.Admin().InitCluster(ctx)
		formed <- err
	}()
	admin := c.Client(client.WithRetryTime(patience)).Admin()
	info, err := admin.CreateLog(ctx, "early", client.LogConfig{}) // as soon as there is a member
	require.NoError(t, err)
	require.Equal(t, 3, info.Config.Replicas)
	require.NoError(t, <-formed)
	c.AwaitReplicas("early", "a", "b", "c")
}

// Appends go on while replicas come and go, and move onto new nodes.
func TestReplicasComeGoAndMoveUnderLoad(t *testing.T) {
	c, l := underLoad(t)
	ctx, cancel := withPatience()
	defer cancel()
	admin := c.Client().Admin()
	configure := func(replicas int) {
		_, err := admin.ConfigureLog(ctx, "orders", client.LogConfig{Replicas: replicas})
		require.NoError(t, err)
		c.await(fmt.Sprint(replicas, " replicas"), func(s *client.ClusterStatus) string {
			if log := findLog(s, "orders"); len(log.Replicas) != replicas || !log.Healthy {
				return fmt.Sprintf("%+v", log)
			}
			return ""
		})
		l.Await(100)
	}
	configure(1)
	configure(3)
	for i := range 5 {
		c.CreateLog(fmt.Sprint("log", i), client.LogConfig{})
	}
	c.Join("d")
	require.Contains(t, c.Command("cluster", "rebalance", "--wait"), "spread evenly")
	s, err := c.Status()
	require.NoError(t, err)
	held := map[string]int{}
	for _, log := range s.Logs {
		for _, r := range log.Replicas {
			if log.Name != "_catalog" {
				held[r.Node]++
			}
		}
	}
	for _, n := range c.Nodes() {
		require.InDelta(t, 4.5, held[n.Name()], 0.5, "six logs of three replicas on four nodes: %v", held)
	}
	configure(4) // so that every node can be read from
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}
