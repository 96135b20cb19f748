package node

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/syncdisk"
)

// The leader of a log is who brings it to other nodes, and has to know that it
// should.
func TestANodeWhoseCatalogHasEndedIsReplaced(t *testing.T) {
	t.Parallel()
	c, said := threeWithoutCatalogOnC(t)
	c.start("d", []string{c.addresses["a"]})
	c.eventually("d is a member", func() bool { return c.nodes["d"].catalog.Load() != nil })
	require.NoError(t, c.nodes["a"].ReplaceNode(t.Context(), anyone, "c", "d"))
	c.eventually("c is out", func() bool {
		status, err := c.nodes["a"].ClusterStatus(t.Context(), anyone)
		return err == nil && !slices.ContainsFunc(status.Nodes, func(n verbs.NodeStatus) bool { return n.Name == "c" })
	})
	c.leader("orders", "c")
	require.Equal(t, 1, said.count(yields))
	texts, err := c.values("d", "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
	require.NoError(t, err)
	require.Equal(t, numbered(0, 10), texts)
}

// Raft's own texts name replicas by number, and changes as Raft encodes them: they help only to debug Raft.
func TestAChangeOfMembersWritesNoTextOfRaftsToTheLog(t *testing.T) {
	t.Parallel()
	said := &lines{}
	c := newClusterWith(t, func(o *settings.Options) { o.Logger = said.logger() }, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", numbered(0, 10)...)
	c.start("d", []string{c.addresses["a"]})
	c.eventually("d is a member", func() bool { return c.nodes["d"].catalog.Load() != nil })
	require.NoError(t, c.nodes["a"].ReplaceNode(t.Context(), anyone, "c", "d"))
	c.eventually("c is out", func() bool {
		status, err := c.nodes["a"].ClusterStatus(t.Context(), anyone)
		return err == nil && !slices.ContainsFunc(status.Nodes, func(n verbs.NodeStatus) bool { return n.Name == "c" })
	})
	c.eventually("lines are kept", func() bool { return said.count("this node leads a log") > 0 }) // it comes up to a second later
	for _, text := range []string{"ConfChange", "type:", "changes:", "switched to configuration", "became leader"} {
		require.Zero(t, said.count(text), text)
	}
}

func TestANodeWhoseCatalogHasEndedYieldsAlsoWhenItIsElectedAgain(t *testing.T) {
	t.Parallel()
	c, said := threeWithoutCatalogOnC(t)
	again, _ := c.replicaOf("c", "orders")
	term := uint64(0)
	c.eventually("c is elected again", func() bool {
		leader := c.nodes[c.leader("orders", "c")].logs.Named("orders").Replica
		term = leader.Status().Term
		return leader.HandOver(t.Context(), again) == nil
	})
	c.eventually("another leads again", func() bool {
		leader := c.nodes[c.leader("orders", "c")].logs.Named("orders").Replica
		return leader.Status().Term > term+1 // that of c lies between
	})
	c.append("orders", "more")
	require.Equal(t, 1, said.count(yields))
}

func TestANodeAloneLeadsOnWithoutItsCatalog(t *testing.T) {
	t.Parallel()
	disk, said := catalogDisk(), &lines{}
	n, err := Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), Disk: disk, Logger: said.logger()})
	require.NoError(t, err)
	defer func() { require.ErrorIs(t, n.Close(context.Background()), errBroken) }()
	create(t, n, "orders", settings.Config{})
	disk.Break(errBroken)
	_, err = n.CreateLog(t.Context(), anyone, "more", settings.Config{})
	requireReason(t, record.StorageFailed, err)
	catalog := n.catalog.Load().Host()
	require.NotNil(t, catalog.Ended())
	n.Handovers.Yield(t.Context(), catalog)
	mustAppend(t, n, "orders", "one")
	require.Zero(t, said.count(yields))
}

// threeWithoutCatalogOnC is a cluster of a, b and c, and what c has said. The
// replica of the catalog on c has ended while c led a log.
func threeWithoutCatalogOnC(t *testing.T) (*testCluster, *lines) {
	disk, said := catalogDisk(), &lines{}
	c := newClusterWith(t, func(o *settings.Options) {
		if o.Name == "c" {
			o.Disk, o.Logger = disk, said.logger()
		}
	}, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	for _, text := range numbered(0, 10) {
		c.append("orders", text)
	}
	c.healthy()
	c.transfer(cluster.CatalogName, "a")
	c.transfer("orders", "c")
	disk.Break(errBroken)
	_, err = c.createLog("a", "more", settings.Config{})
	require.NoError(t, err)
	c.eventually("the catalog on c ends", func() bool { return c.nodes["c"].catalog.Load().Host().Ended() != nil })
	id, _ := c.replicaOf("c", "orders")
	c.eventually("c yields", func() bool {
		if leader := c.leader("orders"); leader != "c" && said.count(yields) == 0 { // another was elected before
			_ = c.nodes[leader].logs.Named("orders").Replica.HandOver(t.Context(), id)
		}
		return said.count(yields) > 0
	})
	return c, said
}

// yields is what a node says once that does.
const yields = "replica of the catalog has ended"

// errBroken is what a disk says that a test has broken.
var errBroken = errors.New("this disk is broken")

// catalogDisk is about what is written to the catalog, and nothing else.
func catalogDisk() *syncdisk.Disk {
	return &syncdisk.Disk{FS: vfs.OS(), Only: func(name string) bool { return strings.Contains(filepath.ToSlash(name), "/logs/0/") }}
}

// lines are what a node says.
type lines struct {
	mu   sync.Mutex
	said []string
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, string(line))
	return len(line), nil
}

// count reports how many lines have a text in them.
func (l *lines) count(text string) (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.said {
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}
