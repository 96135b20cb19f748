// Package recoverytest creates the data directories of stopped nodes for tests of recovery.
package recoverytest

import (
	"encoding/json"
	"log/slog"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

const (
	// ClusterID is the id of the cluster that has lost its majority.
	ClusterID = "OLD"
	// Log is "orders", with a replica on each node: 11 on the first, and so on. It has the records
	// "one" and "two", and nobody knows that they are committed.
	Log = 1
	// Unused is a log that is in no catalog. Its replicas are 71 and so on, one on each node.
	Unused = 7
)

// Member creates the data directory of a node of a cluster. Node 1 is named "a", and so on.
func Member(t require.TestingT, disk vfs.FS, dir string, node, nodes uint64) {
	c := cluster.Change{ID: "first"}
	orders := cluster.Log{ID: Log, Name: "orders"}
	var catalog, voters []uint64
	for id := uint64(1); id <= nodes; id++ {
		catalog, voters = append(catalog, id), append(voters, 10+id)
		c.Node = append(c.Node, cluster.Node{ID: id, Name: name(id), Catalog: id, Votes: true})
		orders.Replicas = append(orders.Replicas, cluster.Replica{ID: 10 + id, Node: id})
	}
	orders.Founders = voters
	c.Put = []cluster.Log{orders}
	change, err := json.Marshal(c)
	require.NoError(t, err)
	id := datadir.Identity{
		Format: datadir.FormatVersion, ClusterID: ClusterID, NodeID: node, Name: name(node), CatalogReplica: node, CatalogVoters: catalog,
	}
	logger := slog.New(slog.DiscardHandler)
	files := datadir.NewFiles(disk, nil, datadir.FilesOptions{Dir: dir, Cluster: id.FilesOf, SegmentBytes: 64 << 10, Logger: logger})
	require.NoError(t, disk.MkdirAll(datadir.WatermarksDir(dir)))
	for _, r := range []struct {
		log, id uint64
		voters  []uint64
		records [][]byte
	}{
		{cluster.CatalogID, node, catalog, [][]byte{change}},
		{Log, 10 + node, voters, [][]byte{[]byte("one"), []byte("two")}},
		{Unused, 70 + node, []uint64{70 + node}, nil},
	} {
		b, err := core.Bootstrap(r.voters)
		require.NoError(t, err)
		o := files.SegmentOptions(files.Owner(r.log, r.id), logger)
		o.Manual = true
		s, err := store.Create(disk, files.ReplicaDir(r.log, r.id), o, b)
		require.NoError(t, err)
		has, err := core.ReadStopped(s, s.HardState(), s.LastIndex())
		require.NoError(t, err)
		// As a leader of term 2 would have written it.
		w, err := has.Continue(core.Continuation{Replica: r.id, Keep: r.voters, Term: 2, Unix: 1000, Records: r.records})
		require.NoError(t, err)
		w.HardState.Commit = 1
		_, err = s.Write([]segment.Write{w})
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	require.NoError(t, id.Save(disk, dir))
}

func name(node uint64) string { return string(rune('a' + node - 1)) }
