package replicas

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/vfs"
)

// blindDisk finds no descriptor for one directory that is to be listed.
type blindDisk struct {
	vfs.FS
	dir string
}

func (d *blindDisk) List(dir string) ([]vfs.FileInfo, error) {
	if dir == d.dir {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.EMFILE}
	}
	return d.FS.List(dir)
}

// A node that has come back with an older copy of its data stays apart as long as it cannot look which
// replicas it has: one that is not marked could vote again in a term in which it has voted.
func TestANodeForgetsNoReplicaThatItCouldNotLookFor(t *testing.T) {
	dir := t.TempDir()
	me := new(datadir.Me)
	me.Store(&datadir.Identity{NodeID: 1, CatalogReplica: 1})
	disk := &blindDisk{FS: vfs.OS()}
	created, err := datadir.LoadReplicaList(disk, dir, me)
	require.NoError(t, err)
	files := datadir.NewFiles(disk, created, datadir.FilesOptions{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	logs := map[string]cluster.Log{
		"kept":    {ID: 1, Placement: cluster.Placement{Replicas: []cluster.Replica{{ID: 10, Node: 1}, {ID: 11, Node: 2}}}},
		"alone":   {ID: 2, Placement: cluster.Placement{Replicas: []cluster.Replica{{ID: 20, Node: 1}}}},
		"begins":  {ID: 3, Placement: cluster.Placement{Replicas: []cluster.Replica{{ID: 30, Node: 1}, {ID: 31, Node: 2}}}},
		"another": {ID: 4, Placement: cluster.Placement{Replicas: []cluster.Replica{{ID: 40, Node: 3}, {ID: 41, Node: 2}}}},
	}
	require.NoError(t, os.MkdirAll(files.ReplicaDir(cluster.CatalogID, 1), 0o700))
	for _, l := range logs {
		own := files.ReplicaDir(l.ID, l.Replicas[0].ID)
		require.NoError(t, os.MkdirAll(own, 0o700))
		if l.ID != 3 {
			require.NoError(t, os.WriteFile(filepath.Join(own, "1.seg"), nil, 0o600))
		}
	}
	c := new(catalog.Shared)
	c.Store(&catalog.Catalog{})
	c.Load().Shown.Store(&cluster.State{Logs: logs})
	j := &Rejoin{me: me, catalog: c, logs: hosted.NewLogs(), files: files}
	marked := func() (ids []uint64) {
		for _, l := range []cluster.Log{{Placement: cluster.Placement{Replicas: []cluster.Replica{{ID: 1}}}}, logs["kept"], logs["alone"], logs["begins"], logs["another"]} {
			_, yes, err := files.MarkedLost(l.ID, l.Replicas[0].ID)
			require.NoError(t, err)
			if yes {
				ids = append(ids, l.Replicas[0].ID)
			}
		}
		return ids
	}

	disk.dir = files.ReplicaDir(1, 10)
	require.ErrorIs(t, j.forgetAll(errors.New("an older copy")), syscall.EMFILE)
	require.Equal(t, []uint64{1}, marked())
	disk.dir = ""
	require.NoError(t, j.forgetAll(errors.New("an older copy")))
	require.Equal(t, []uint64{1, 10}, marked())
}
