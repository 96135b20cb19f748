package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strandline.dev/internal/vfs"
)

var errDisk = errors.New("the disk said no")

// tree is a file system of directories, of which a power cut leaves the ones
// whose parent was synced. It answers errDisk from one call on: the process was killed.
type tree struct {
	seen, durable map[string]bool
	calls         int // until the process is killed
}

func newTree() *tree {
	return &tree{seen: map[string]bool{".": true}, durable: map[string]bool{".": true}}
}

func (f *tree) call() error {
	if f.calls--; f.calls < 0 {
		return errDisk
	}
	return nil
}

func (f *tree) exists(dir string) (bool, error) {
	return f.seen[dir], f.call()
}

func (f *tree) mkdir(dir string) error {
	switch {
	case f.call() != nil:
		return errDisk
	case f.seen[dir]:
		return fs.ErrExist
	case !f.seen[path.Dir(dir)]:
		return fs.ErrNotExist
	}
	f.seen[dir] = true
	return nil
}

func (f *tree) sync(dir string) error {
	if f.call() != nil {
		return errDisk
	}
	for name := range f.seen {
		if path.Dir(name) == dir {
			f.durable[name] = true
		}
	}
	return nil
}

func TestADirectoryIsDurableThoughItsMakerWasKilledBetweenAnyTwoCalls(t *testing.T) {
	for calls := 0; ; calls++ {
		f := newTree()
		f.calls = calls
		err := vfs.MakeDirs("a/b/c", f.exists, f.mkdir, f.sync)
		done := err == nil
		if !done {
			require.ErrorIs(t, err, errDisk)
			f.calls = 100 // the next process
			require.NoError(t, vfs.MakeDirs("a/b/c", f.exists, f.mkdir, f.sync))
		}
		for _, dir := range []string{"a", "a/b", "a/b/c"} {
			require.True(t, f.durable[dir], "%s, killed after %d calls", dir, calls)
		}
		if done {
			require.Greater(t, calls, 6)
			return
		}
	}
}

func TestADirectoryThatIsThereInAParentWeMayNotReadIsTaken(t *testing.T) {
	f := newTree()
	f.seen["a"], f.calls = true, 100
	refuse := func(err error) func(string) error { return func(string) error { return err } }
	require.NoError(t, vfs.MakeDirs("a", f.exists, f.mkdir, refuse(fs.ErrPermission)))
	require.ErrorIs(t, vfs.MakeDirs("a", f.exists, f.mkdir, refuse(errDisk)), errDisk)
	require.ErrorIs(t, vfs.MakeDirs("b", f.exists, f.mkdir, refuse(fs.ErrPermission)), fs.ErrPermission,
		"one that we make has to be durable")
}

func TestDirectoriesAreMadeOnARealDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		require.NoError(t, vfs.OS().MkdirAll(dir))
		require.DirExists(t, dir)
	}
}

// Those who only read share a lock, and keep away who would write.
func TestWhoOnlyReadsChangesNothing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, []byte("as it was"), 0o600))
	disk := vfs.ReadOnly()
	_, err := disk.Lock(name + "s")
	require.ErrorIs(t, err, fs.ErrNotExist)
	first, err := disk.Lock(name)
	require.NoError(t, err)
	second, err := disk.Lock(name)
	require.NoError(t, err)
	require.NoError(t, first.Close())
	_, err = vfs.OS().Lock(name)
	require.ErrorContains(t, err, "another process holds the lock")
	require.NoError(t, second.Close())
	writer, err := vfs.OS().Lock(name)
	require.NoError(t, err)
	_, err = disk.Lock(name)
	require.ErrorContains(t, err, "another process holds the lock")
	require.NoError(t, writer.Close())

	file, err := disk.Open(name)
	require.NoError(t, err)
	_, err = file.WriteAt([]byte("x"), 0)
	require.Error(t, err)
	require.NoError(t, file.Close())
	_, err = disk.Create(name + "s")
	require.ErrorIs(t, err, fs.ErrPermission)
	for _, err := range []error{disk.Remove(name), disk.Rename(name, name+"s"), disk.MkdirAll(name + "s"), disk.RemoveAll(name), vfs.WriteFileDurably(disk, name, nil)} {
		require.ErrorIs(t, err, fs.ErrPermission)
	}
	content, err := disk.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "as it was", string(content))
}

// A process that is started meanwhile has a copy of the lock's file until it runs its program.
func TestALockEndsThoughAnotherProcessHasACopyOfItsFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	for _, disk := range []vfs.FS{vfs.OS(), vfs.ReadOnly()} {
		lock, err := disk.Lock(name)
		require.NoError(t, err)
		copied := copyOf(t, name)
		require.NoError(t, lock.Close())
		again, err := vfs.OS().Lock(name)
		require.NoError(t, err)
		require.NoError(t, again.Close())
		require.NoError(t, copied.Close())
	}
}

// copyOf returns a second descriptor of the file, as fork makes it.
func copyOf(t *testing.T, name string) *os.File {
	t.Helper()
	open, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range open {
		if target, err := os.Readlink(link); err == nil && target == name {
			fd, err := strconv.Atoi(filepath.Base(link))
			require.NoError(t, err)
			second, err := unix.Dup(fd)
			require.NoError(t, err)
			return os.NewFile(uintptr(second), name)
		}
	}
	require.FailNow(t, "no descriptor of the file", name)
	return nil
}

func TestWhatIsStoredIsForItsUserAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	disk := vfs.OS()
	mode := func(name string) fs.FileMode {
		info, err := os.Stat(name)
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	inner := filepath.Join(dir, "logs", "0")
	require.NoError(t, disk.MkdirAll(inner))
	for _, name := range []string{dir, filepath.Dir(inner), inner} {
		require.Equal(t, fs.FileMode(0o700), mode(name), name)
	}
	file := filepath.Join(inner, "segment")
	f, err := disk.Create(file)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, fs.FileMode(0o600), mode(file))

	require.NoError(t, os.Chmod(dir, 0o755), "an earlier release made it")
	lock, err := disk.Lock(filepath.Join(dir, "lock"))
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	require.Equal(t, fs.FileMode(0o700), mode(dir))
	require.Equal(t, fs.FileMode(0o600), mode(filepath.Join(dir, "lock")))
}

func TestAVectorMayHaveEmptyBuffers(t *testing.T) {
	file, err := vfs.OS().Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	for _, vector := range [][]string{{"a", "b", ""}, {"", "a", "b"}, {"a", "", "", "b", "", ""}, {"", ""}, {"", "ab"}, {""}, {}} {
		var buffers [][]byte
		for _, b := range vector {
			buffers = append(buffers, []byte(b))
		}
		require.NoError(t, file.WriteVector(buffers, 0), "%q", vector)
	}
	b := make([]byte, 3)
	n, _ := file.ReadAt(b, 0)
	require.Equal(t, "ab", string(b[:n]))
	require.NoError(t, file.Close())
}
