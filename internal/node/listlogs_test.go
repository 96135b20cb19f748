package node

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

// A node without a replica said "0 0 0" and that nothing is wrong.
func TestANodeListsLogsThatItDoesNotHold(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c", "d")
	_, err := c.nodes["a"].CreateLog(t.Context(), anyone, "orders", settings.Config{Replicas: 3})
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
		infos, err := c.nodes[without].ListLogs(t.Context(), anyone, false)
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
	_, err := c.nodes["c"].ListLogs(t.Context(), anyone, false)
	requireReason(t, record.NotLeader, err)
}
