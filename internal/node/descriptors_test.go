package node

import (
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/vfs"
)

// crowdedDisk finds no file descriptor for the files of logs while it is crowded, except
// for the list of replicas.
type crowdedDisk struct {
	vfs.FS
	crowded atomic.Bool
	refused atomic.Int32
}

func (d *crowdedDisk) refuse(name string) error {
	if !d.crowded.Load() || !strings.Contains(filepath.ToSlash(name), "/logs/1") && !strings.Contains(filepath.ToSlash(name), "/watermarks/1-") {
		return nil
	}
	d.refused.Add(1)
	return &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
}

func (d *crowdedDisk) Create(name string) (vfs.File, error) {
	if err := d.refuse(name); err != nil {
		return nil, err
	}
	return d.FS.Create(name)
}

func (d *crowdedDisk) ReadFile(name string) ([]byte, error) {
	if err := d.refuse(name); err != nil {
		return nil, err
	}
	return d.FS.ReadFile(name)
}

func (d *crowdedDisk) List(dir string) ([]vfs.FileInfo, error) {
	if err := d.refuse(dir); err != nil {
		return nil, err
	}
	return d.FS.List(dir)
}

func (d *crowdedDisk) Open(name string) (vfs.File, error) {
	if err := d.refuse(name); err != nil {
		return nil, err
	}
	return d.FS.Open(name)
}

func (d *crowdedDisk) SyncDir(dir string) error {
	if err := d.refuse(dir); err != nil {
		return err
	}
	return d.FS.SyncDir(dir)
}

// What could not be looked for is not there and not lost: the replica is created when there
// are descriptors again, and keeps its id.
func TestALogCreatedWithoutFileDescriptorsIsServedOnceThereAreSome(t *testing.T) {
	t.Parallel()
	disks := map[string]*crowdedDisk{}
	c := newClusterWith(t, func(o *settings.Options) {
		if disks[o.Name] == nil {
			disks[o.Name] = &crowdedDisk{FS: vfs.OS()}
		}
		o.Disk = disks[o.Name]
	}, "a", "b", "c")
	c.healthy()
	for _, name := range []string{"b", "c"} {
		disks[name].crowded.Store(true)
	}
	created := make(chan error, 1)
	go func() {
		_, err := c.createLog("a", "orders", settings.Config{})
		created <- err
	}()
	for _, name := range []string{"b", "c"} {
		c.eventually("files are refused", func() bool { return disks[name].refused.Load() > 0 })
		disks[name].crowded.Store(false)
	}
	require.NoError(t, <-created)
	c.append("orders", "one")
	c.healthy()
	for _, r := range c.nodes["a"].catalog.Load().Shown.Load().Logs["orders"].Replicas {
		require.Contains(t, c.nodes["a"].catalog.Load().Shown.Load().Logs["orders"].Founders, r.ID, "none was replaced")
	}
}
