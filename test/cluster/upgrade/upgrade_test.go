package upgrade

import (
	"debug/buildinfo"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"

	"strandline.dev/client"
	catalog "strandline.dev/internal/cluster"
	"strandline.dev/test/cluster"
	"strandline.dev/test/cost"
)

var upgradeRounds = flag.Int("upgrade-rounds", 1, "how often a cluster is upgraded and goes back before it is finalized")

// Nodes of earlierRevision and of this tree are one cluster, whichever of them lead, and
// any of them can go back until the cluster is finalized.
func TestARollingUpgradeAndTheWayBackLoseNothing(t *testing.T) {
	t.Parallel()
	older, newer := programs(t)
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
		_, err := nodes[0].Client().Admin().ConfigureLog(t.Context(), "orders", client.LogConfig{RetentionBytes: 1 << 40})
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
		require.Equal(t, catalog.Understood.Max, finalize(t, c))
	}
	status, err = c.Status()
	require.NoError(t, err)
	require.Equal(t, catalog.Understood.Max, status.Level)
	l.Await(200)
	c.AwaitHealthy()
	l.Verify()
	require.Zero(t, l.Stop().FailedCalls(), l.Report())
}

// The leader of a log with a session that nobody uses sends its heartbeats as all nodes need them: those of before the
// wheel leave no ticks out of such a log.
func TestNobodyReplacesTheLeaderOfALogAtRestDuringAnUpgrade(t *testing.T) {
	t.Parallel()
	older, newer := programs(t)
	c := cluster.Start(t, cluster.Options{Nodes: 3, Program: older})
	c.CreateLog("resting", client.LogConfig{})
	p, err := c.Client().Producer(t.Context(), "resting", client.WithLease(10*time.Minute))
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close(t.Context())) }()
	append := func() client.LogInfo {
		_, err := p.Append(t.Context(), []byte("x"))
		require.NoError(t, err)
		info, err := c.Client().Admin().Info(t.Context(), "resting")
		require.NoError(t, err)
		return info
	}
	// A node takes a log to be idle after ten seconds.
	rests := func(when string) {
		const rest, tooLate = 16 * time.Second, 100 * time.Millisecond
		for again := 2; ; again-- {
			latest, before := cost.WatchLateness(), append()
			time.Sleep(rest)
			after, late := append(), latest()
			if before.LeaderTerm == after.LeaderTerm {
				return
			}
			require.True(t, late >= tooLate && again > 0, "%s: term %d after %d, and no sleep was more than %v late", when, after.LeaderTerm, before.LeaderTerm, late)
		}
	}
	nodes := c.Nodes()
	install := func(nodes ...*cluster.Node) {
		for _, n := range nodes {
			n.Install(newer)
			n.Restart()
			c.AwaitHealthy()
		}
	}
	install(nodes[0])
	require.NoError(t, c.Client().Admin().TransferLeader(t.Context(), "resting", "a"))
	rests("the new node leads two old ones")
	install(nodes[1:]...)
	rests("all nodes are new")
	require.Equal(t, catalog.Understood.Max, finalize(t, c))
	rests("the level is that of the new ones")
}

// programs are those of earlierRevision and of this tree.
func programs(t *testing.T) (older, newer string) {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	older, err := build(strings.TrimSpace(earlierRevision))
	if errors.Is(err, errNoModules) && os.Getenv("CI") == "" {
		t.Skip(err) // `go mod download` brings them
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(filepath.Dir(older))) })
	requireModulesOfToday(t, older)
	newer, err = cluster.Program(cluster.Build{Race: cluster.RaceEnabled})
	require.NoError(t, err)
	return older, newer
}

var building sync.Mutex // the second one finds most in the cache

// requireModulesOfToday requires that a program was built with no other modules than this tree has.
func requireModulesOfToday(t *testing.T, program string) {
	t.Helper()
	text, err := os.ReadFile("../../../go.mod")
	require.NoError(t, err)
	mod, err := modfile.ParseLax("go.mod", text, nil)
	require.NoError(t, err)
	today := map[string]string{}
	for _, r := range mod.Require {
		today[r.Mod.Path] = r.Mod.Version
	}
	built, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	require.NotEmpty(t, built.Deps)
	for _, d := range built.Deps {
		require.Equal(t, today[d.Path], d.Version, d.Path)
	}
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
