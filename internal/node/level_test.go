package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strandline.dev/internal/node/verbs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

var older, newer = cluster.Levels{Min: 1, Max: 1}, cluster.Levels{Min: 1, Max: 2}

// install gives the nodes that are started from now on a program of these levels.
func (c *testCluster) install(l cluster.Levels) {
	c.adjust = func(o *settings.Options) { o.Levels = l }
}

// finalize asks a node for the newest level until all nodes that run have answered it: with
// an error, or with at least the level that is expected.
func (c *testCluster) finalize(on string, expected int) (level int, err error) {
	c.t.Helper()
	c.eventually("the nodes that run answer "+on, func() bool {
		level, err = c.nodes[on].FinalizeCluster(c.t.Context(), anyone)
		for name := range c.nodes {
			if err != nil && contains(err, fmt.Sprintf("%q does not answer", name)) {
				return false
			}
		}
		return (err != nil || level >= expected) && !retryable(err) && !errors.Is(err, context.DeadlineExceeded)
	})
	return level, err
}

func TestAClusterIsUpgradedNodeByNodeAndFinalized(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *settings.Options) { o.Levels = older }, "a", "b", "c")
	require.Equal(t, 1, c.healthy().Level)
	c.install(newer)
	for i, name := range []string{"a", "b", "c"} {
		c.stop(name)
		_, err := c.finalize(c.leader("_catalog"), min(i, 1)+1)
		if i > 0 { // until the first is upgraded there is nothing to do
			requireReason(t, record.Precondition, err)
			require.ErrorContains(t, err, `"`+name+`" does not answer`)
		}
		c.start(name, nil)
		c.healthy()
		if i < 2 {
			_, err = c.finalize(name, 2)
			requireReason(t, record.Precondition, err)
			require.ErrorContains(t, err, `"c" understands 1`)
		}
	}
	for range 2 { // again changes nothing
		level, err := c.finalize("b", 2)
		require.NoError(t, err)
		require.Equal(t, 2, level)
	}
	var status verbs.ClusterStatus
	c.eventually("all nodes tell what they understand", func() bool {
		status = c.healthy()
		return !slices.ContainsFunc(status.Nodes, func(n verbs.NodeStatus) bool { return n.NewestLevel == 0 })
	})
	require.Equal(t, 2, status.Level)
	for _, n := range status.Nodes {
		require.Equal(t, []int{1, 2}, []int{n.OldestLevel, n.NewestLevel}, n.Name)
	}

	c.install(older)
	c.start("d", []string{c.addresses["a"]})
	c.eventually("a node that is too old to be refused", func() bool {
		return strings.Contains(c.nodes["d"].joiner.SeekOnce(t.Context()), "its program is too old")
	})
	require.False(t, c.nodes["d"].me.Load().Member())
}

func TestANodeThatDoesNotUnderstandItsClusterDoesNotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(l cluster.Levels) (*Node, error) {
		return Open(settings.Options{FormAlone: true, DataDir: dir, Levels: l, Logger: slog.New(slog.DiscardHandler)})
	}
	n, err := start(older)
	require.NoError(t, err)
	require.NoError(t, n.Close(t.Context()))
	_, err = start(cluster.Levels{Min: 2, Max: 3})
	require.ErrorContains(t, err, `the cluster is at feature level 1, and node "node1" understands 2 to 3: its program is too new`)
	n, err = start(newer)
	require.NoError(t, err)
	create(t, n, "orders", settings.Config{})
	hold := func() error {
		_, err := n.SetHold(t.Context(), anyone, "orders", record.Hold{Name: "a"}, reading.FromStart)
		return err
	}
	requireReason(t, record.Precondition, hold())
	level, err := n.FinalizeCluster(t.Context(), anyone)
	require.NoError(t, err)
	require.Equal(t, 2, level)
	require.NoError(t, hold())
	require.NoError(t, n.Close(t.Context()))
	_, err = start(older)
	require.ErrorContains(t, err, "its program is too old; install the release that the other nodes run")
	n, err = start(cluster.Levels{Min: 2, Max: 3})
	require.NoError(t, err)
	require.NoError(t, n.Close(t.Context()))
}

// A node that knows nothing yet of the level is refused by the others as soon as it says
// who it is.
func TestANodeThatIsTooOldIsRefusedByTheOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	require.Equal(t, cluster.Understood.Max, c.healthy().Level, "a new cluster begins at the newest level")
	a := c.nodes["a"]
	b := c.nodes["b"]
	hello := peer.Hello{Cluster: b.ClusterID(), Node: b.self.PeerNode(), Levels: peer.Levels(b.options.Levels)}
	hello.Incarnation, hello.Known = b.incarnations.Greeting()
	require.NoError(t, a.admission.Admit(hello))
	hello.Levels.Min, hello.Levels.Max = 0, 0
	require.ErrorContains(t, a.admission.Admit(hello), "too old")
	hello.Levels.Min, hello.Levels.Max = 8, 9
	require.ErrorContains(t, a.admission.Admit(hello), "too new")
}

func TestAClusterWithANodeThatIsOlderBeginsAtItsLevel(t *testing.T) {
	t.Parallel()
	c := newWaiting(t, func(o *settings.Options) {
		if o.Name == "b" {
			o.Levels = older
		}
	}, "a", "b", "c")
	_, err := c.form("a")
	require.NoError(t, err)
	require.Equal(t, 1, c.healthy().Level)
}

// A catalog that a newer version has written is not guessed at, and the node says what to
// do.
func TestAnUnknownChangeStopsTheCatalogOfANode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	create(t, n, "orders", settings.Config{})
	c := n.catalog.Load()
	require.NoError(t, c.Refresh(t.Context()))
	require.NoError(t, c.AppendAt(t.Context(), c.Next, [][]byte{[]byte(`{"change":"x","rename":["orders","sales"]}`)}))
	require.ErrorIs(t, c.Refresh(t.Context()), cluster.ErrNewer)
	require.ErrorContains(t, n.Ready(), "rename: unknown kind of change")
	_, err := n.CreateLog(t.Context(), anyone, "more", settings.Config{})
	require.ErrorContains(t, err, "install that version on this node")
	mustAppend(t, n, "orders", "a") // its logs continue
	require.NoError(t, n.Close(t.Context()))
	_, err = Open(settings.Options{DataDir: dir, Logger: slog.New(slog.DiscardHandler)})
	require.ErrorIs(t, err, cluster.ErrNewer)
}
