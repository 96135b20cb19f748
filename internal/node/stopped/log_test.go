package stopped

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

const (
	ordersID = 3
	replica  = 7
)

// nodeOf makes the data directory of node 1 with the log orders, whose records have no contents beside them, as a release
// without digests wrote them, and with a log in memory. The newest record is not known to be committed.
func nodeOf(t *testing.T, values ...string) (data string) {
	t.Helper()
	data = t.TempDir()
	id := datadir.Identity{Format: datadir.FormatVersion, ClusterID: "C", NodeID: 1, Name: "a", CatalogReplica: 1, CatalogVoters: []uint64{1}}
	require.NoError(t, id.Save(vfs.OS(), data))
	require.NoError(t, vfs.OS().MkdirAll(datadir.WatermarksDir(data)))
	here := func(replica uint64) cluster.Placement {
		return cluster.Placement{Founders: []uint64{replica}, Replicas: []cluster.Replica{{ID: replica, Node: 1}}}
	}
	var c cluster.Change
	c.ID = "first"
	c.Node = []cluster.Node{{ID: 1, Name: "a", Catalog: 1, Votes: true}}
	c.Put = []cluster.Log{
		{ID: ordersID, Name: "orders", Placement: here(replica)},
		{ID: 4, Name: "metrics", Config: cluster.Config{Durability: "memory"}, Placement: here(8)},
		{ID: 6, Name: "followed", Placement: cluster.Placement{
			Founders: []uint64{10}, Replicas: []cluster.Replica{{ID: 10, Node: 2}}, Readers: []cluster.Replica{{ID: 11, Node: 1, Reader: true}},
		}},
		{ID: 5, Name: "elsewhere", Placement: cluster.Placement{Founders: []uint64{9}, Replicas: []cluster.Replica{{ID: 9, Node: 2}}}},
	}
	change, err := json.Marshal(c)
	require.NoError(t, err)
	write(t, data, cluster.CatalogID, 1, [][]byte{change})
	write(t, data, ordersID, replica, [][]byte{[]byte(values[0])}, [][]byte{[]byte(values[1])}, [][]byte{[]byte(values[2])})
	write(t, data, 6, 11, [][]byte{[]byte(values[0])}, [][]byte{[]byte(values[1])})
	return data
}

// write makes the log of a replica, an entry for each group of records and the last of several not committed.
func write(t *testing.T, data string, log, replica uint64, groups ...[][]byte) {
	t.Helper()
	files := datadir.NewFiles(vfs.OS(), nil, datadir.FilesOptions{Dir: data, Cluster: func() string { return "C" }, SegmentBytes: 64 << 10})
	b, err := core.Bootstrap([]uint64{replica})
	require.NoError(t, err)
	o := files.SegmentOptions(files.Owner(log, replica), slog.New(slog.DiscardHandler))
	o.Manual = true
	s, err := store.Create(vfs.OS(), files.ReplicaDir(log, replica), o, b)
	require.NoError(t, err)
	for i, records := range groups {
		has, err := core.ReadStopped(s, s.HardState(), s.LastIndex())
		require.NoError(t, err)
		w, err := has.Continue(core.Continuation{Replica: replica, Keep: []uint64{replica}, Term: uint64(2 + i), Unix: 1000, Records: records})
		require.NoError(t, err)
		if i > 0 && i == len(groups)-1 {
			w.HardState.Commit = s.LastIndex()
		}
		_, err = s.Write([]segment.Write{w})
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
}

func TestALogIsReadAsFarAsItIsKnownToBeCommitted(t *testing.T) {
	data := nodeOf(t, "one", "two", "three")
	for _, dir := range []string{data, filepath.Join(data, "logs", "3", "7")} {
		l, err := OpenLog(t.Context(), dir, "orders", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		start, end, err := l.Bounds()
		require.NoError(t, err)
		require.Equal(t, []record.Offset{0, 2}, []record.Offset{start, end})
		var values []string
		for r, err := range l.Records(t.Context(), 1, 9) {
			require.NoError(t, err)
			require.EqualValues(t, 1000, r.Timestamp)
			values = append(values, string(r.Value))
		}
		require.Equal(t, []string{"two"}, values)
		for r, err := range l.Records(t.Context(), 0, 2) {
			require.NoError(t, err)
			require.Equal(t, "one", string(r.Value))
			break
		}
		require.NoError(t, l.Close())
	}
}

func TestAReadReplicaOfAStoppedNodeIsRead(t *testing.T) {
	l, err := OpenLog(t.Context(), nodeOf(t, "one", "two", "three"), "followed", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	_, end, err := l.Bounds()
	require.NoError(t, err)
	require.EqualValues(t, 1, end)
	require.NoError(t, l.Close())
}

func TestALogWithoutDigestsSaysSo(t *testing.T) {
	l, err := OpenLog(t.Context(), nodeOf(t, "one", "two", "three"), "orders", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer l.Close()
	_, err = l.Digest(t.Context(), 2)
	require.ErrorContains(t, err, "has no digest at offset 2")
	_, err = l.Digest(t.Context(), 3)
	require.ErrorContains(t, err, "beyond the end of the log, which is 2")
	empty, err := l.Digest(t.Context(), 0)
	require.NoError(t, err)
	require.Zero(t, empty.Batches)
}

func TestWhatADirectoryDoesNotHaveIsNamed(t *testing.T) {
	data := nodeOf(t, "one", "two", "three")
	for name, reason := range map[string]string{
		"other": `no log "other"`, "metrics": "is in memory only", "elsewhere": "other nodes have its replicas",
	} {
		_, err := OpenLog(t.Context(), data, name, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, reason)
	}
	require.NoError(t, vfs.OS().Remove(filepath.Join(data, "node.json")))
	_, err := OpenLog(t.Context(), data, "orders", slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "has not joined a cluster")
	require.NoError(t, vfs.OS().RemoveAll(filepath.Join(data, "logs")))
	require.NoError(t, vfs.OS().MkdirAll(filepath.Join(data, "logs")))
	_, err = OpenLog(t.Context(), data, "orders", slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "has not joined a cluster")
}

func TestADirectoryIsNotReadWhileANodeRunsOnIt(t *testing.T) {
	data := nodeOf(t, "one", "two", "three")
	lock, err := vfs.OS().Lock(filepath.Join(data, "lock"))
	require.NoError(t, err)
	_, err = OpenLog(t.Context(), data, "orders", slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, ErrRuns)
	require.NoError(t, lock.Close())
	one, err := OpenLog(t.Context(), data, "orders", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	other, err := OpenLog(t.Context(), data, "orders", slog.New(slog.DiscardHandler))
	require.NoError(t, err, "two may read it")
	_, err = vfs.OS().Lock(filepath.Join(data, "lock"))
	require.Error(t, err, "no node starts meanwhile")
	require.NoError(t, one.Close())
	require.NoError(t, other.Close())
}
