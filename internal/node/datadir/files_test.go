package datadir

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// blindDisk refuses to list directories, or to read files.
type blindDisk struct {
	vfs.FS
	list, read error
}

func (d *blindDisk) List(dir string) ([]vfs.FileInfo, error) {
	if d.list != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: d.list}
	}
	return d.FS.List(dir)
}

func (d *blindDisk) ReadFile(name string) ([]byte, error) {
	if d.read != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: d.read}
	}
	return d.FS.ReadFile(name)
}

// Who takes a directory that could not be listed for one without a segment keeps a replica that has forgotten
// its votes, or makes one anew that is there.
func TestWhatCannotBeLookedForIsNotMissing(t *testing.T) {
	dir := dataDir(t)
	disk := &blindDisk{FS: vfs.OS()}
	created, err := LoadReplicaList(disk, dir, pointer(Identity{}))
	require.NoError(t, err)
	f := NewFiles(disk, created, FilesOptions{Dir: dir, Logger: slog.New(slog.DiscardHandler)})

	has, err := f.HasLog(1, 2)
	require.NoError(t, err, "there is no directory")
	require.False(t, has)
	was, err := f.WasCreated(1, 2)
	require.NoError(t, err)
	require.False(t, was)
	require.NoError(t, os.MkdirAll(f.ReplicaDir(1, 2), 0o700))
	has, err = f.HasLog(1, 2)
	require.NoError(t, err, "nothing is in it")
	require.False(t, has)
	require.NoError(t, os.WriteFile(filepath.Join(f.ReplicaDir(1, 2), "1.seg"), nil, 0o600))
	has, err = f.HasLog(1, 2)
	require.NoError(t, err)
	require.True(t, has)

	for _, cause := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, syscall.EACCES} {
		disk.list = cause
		has, err = f.HasLog(1, 2)
		require.ErrorIs(t, err, cause)
		require.False(t, has)
		_, err = f.WasCreated(1, 2)
		require.ErrorIs(t, err, cause)
	}
	disk.list = nil
	disk.read = syscall.EMFILE
	_, err = f.WasCreated(1, 3)
	require.ErrorIs(t, err, syscall.EMFILE, "the watermark")
	_, _, err = f.MarkedLost(1, 2)
	require.ErrorIs(t, err, syscall.EMFILE)
	require.ErrorIs(t, f.MarkLost(1, 2, "why"), syscall.EMFILE)
}

// countedDisk counts the syncs of files and directories.
type countedDisk struct {
	vfs.FS
	syncs atomic.Int64
}

type countedFile struct {
	vfs.File
	disk *countedDisk
}

func (d *countedDisk) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return countedFile{f, d}, err
}

func (d *countedDisk) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return countedFile{f, d}, err
}

func (d *countedDisk) SyncDir(dir string) error {
	d.syncs.Add(1)
	return d.FS.SyncDir(dir)
}

func (f countedFile) Datasync() error {
	f.disk.syncs.Add(1)
	return f.File.Datasync()
}

// A cluster with thousands of logs waits for each of them when they are created.
func TestANewReplicaIsOpenAfterAFewSyncs(t *testing.T) {
	dir := dataDir(t)
	disk := &countedDisk{FS: vfs.OS()}
	created, err := LoadReplicaList(disk, dir, pointer(Identity{}))
	require.NoError(t, err)
	f := NewFiles(disk, created, FilesOptions{Dir: dir, Cluster: func() string { return "c" }, Logger: slog.New(slog.DiscardHandler)})
	made, err := f.Make(f.Owner(1, 2), []uint64{2}, f.Logger)
	require.NoError(t, err)
	// Snapshot, watermark and list take two each; a segment, its spare and the mark of the begin five.
	require.LessOrEqual(t, disk.syncs.Load(), int64(11))
	require.True(t, created.Has(2))
	require.NoError(t, made.Close())

	again, err := store.Recover(disk, f.ReplicaDir(1, 2), f.SegmentOptions(f.Owner(1, 2), f.Logger))
	require.NoError(t, err)
	require.NoError(t, again.Close())
}
