package upgrade

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/cluster"
)

var upgradeRounds = flag.Int("upgrade-rounds", 1, "how often a cluster is upgraded and goes back before it is finalized")

// Nodes of earlierRevision and of this tree are one cluster, whichever of them lead, and
// any of them can go back until the cluster is finalized.
func TestARollingUpgradeAndTheWayBackLoseNothing(t *testing.T) {
	t.Parallel()
	older, err := build(strings.TrimSpace(earlierRevision))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(filepath.Dir(older))) })
	newer, err := cluster.Program(cluster.Build{Race: cluster.RaceEnabled})
	require.NoError(t, err)
	c := cluster.Start(t, cluster.Options{Nodes: 3, Program: older})
	c.CreateLog("orders", client.LogConfig{})
	l := c.Load(cluster.LoadOptions{Log: "orders"})
	l.Await(200)
	install := func(program string, nodes ...*cluster.Node) {
		for _, n := range nodes {
			n.Install(program)
			n.Restart()
			l.Await(200)
			c.AwaitHealthy()
		}
	}
	nodes := c.Nodes()
	for range *upgradeRounds {
		install(newer, nodes[0])
		awaitRefusal(t, nodes[0], `"b" understands 1`, `"c" understands 1`)
		// The new one decides changes of the catalog that the old ones take, and leads.
		_, err = nodes[0].Client().Admin().ConfigureLog(t.Context(), "orders", client.LogConfig{RetentionBytes: 1 << 40})
		require.NoError(t, err)
		require.NoError(t, c.Client().Admin().TransferLeader(t.Context(), "orders", "a"))
		l.Await(200)
		install(newer, nodes[1:]...)
		slices.Reverse(nodes)
		install(older, nodes...)
		slices.Reverse(nodes)
	}
	install(newer, nodes...)
	status, err := c.Status()
	require.NoError(t, err)
	require.Equal(t, 1, status.Level)
	for range 2 {
		require.Equal(t, 4, finalize(t, c))
	}
	status, err = c.Status()
	require.NoError(t, err)
	require.Equal(t, 4, status.Level)
	l.Await(200)
	c.AwaitHealthy()
	l.Verify()
	require.Zero(t, l.Stop().FailedCalls(), l.Report())
}

func TestAShallowCloneIsAnErrorThatSaysWhatToDo(t *testing.T) {
	_, err := build("0123456789012345678901234567890123456789")
	require.ErrorContains(t, err, "fetch the whole history: git fetch --unshallow")
}

// awaitRefusal asks a node to finalize until the refusal has all parts. A node that takes too
// long to answer is named as one that does not; without the answer of the newest there is
// nothing to be finalized.
func awaitRefusal(t *testing.T, n *cluster.Node, parts ...string) {
	t.Helper()
	for deadline := time.Now().Add(cluster.Patience); ; {
		level, err := n.Client().Admin().FinalizeCluster(t.Context())
		if err == nil {
			require.Equal(t, 1, level)
		} else {
			require.ErrorIs(t, err, client.ErrPrecondition)
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(err.Error(), part) }) {
				return
			}
		}
		require.True(t, time.Now().Before(deadline), "%d, %v", level, err)
	}
}

// finalize finalizes the cluster, again while a node takes too long to answer, and returns the level.
func finalize(t *testing.T, c *cluster.Cluster) int {
	t.Helper()
	for deadline := time.Now().Add(cluster.Patience); ; {
		level, err := c.Client().Admin().FinalizeCluster(t.Context())
		if errors.Is(err, client.ErrPrecondition) && strings.Contains(err.Error(), "does not answer") && time.Now().Before(deadline) {
			continue
		}
		require.NoError(t, err)
		return level
	}
}
