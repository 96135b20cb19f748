package cluster

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

func TestHoweverManyFormAClusterAtOnceThereIsOne(t *testing.T) {
	t.Parallel()
	for range 6 {
		c := startWaiting(t, Options{Nodes: 3})
		formed := make([]client.Formation, 6)
		failed := make([]error, len(formed))
		var asking sync.WaitGroup
		ctx, cancel := withPatience()
		for i := range formed {
			asking.Go(func() { formed[i], failed[i] = c.nodes[i%3].client.Admin().InitCluster(ctx) })
		}
		asking.Wait()
		cancel()
		for i := range formed {
			require.NoError(t, failed[i], "asked of node %s", c.nodes[i%3].name)
			require.Equal(t, formed[0].ClusterID, formed[i].ClusterID)
		}
		c.AwaitHealthy()
		answers, err := c.askAll()
		require.NoError(t, err)
		for _, s := range answers {
			require.Equal(t, formed[0].ClusterID, s.ClusterID)
			require.Len(t, s.Nodes, 3)
		}
		for _, n := range slices.Backward(c.nodes) {
			n.Kill()
		}
	}
}
