package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// OS is the file system of this machine. Only the user of the process can read the files that
// it creates: they contain records, and the catalog contains rights.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Create(name string) (File, error) {
	f, err := open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Open(name string) (File, error) {
	f, err := open(name, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) ReadFile(name string) ([]byte, error) {
	f, err := open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

const (
	fileMode = 0o600
	dirMode  = 0o700
)

// Without a free descriptor a file is opened a little later. That a log cannot
// open a file for a moment, since others have too many open, is no reason for it
// to stop; that there is none for openTime is one.
const (
	openTime  = 10 * time.Second
	openPause = 10 * time.Millisecond
)

func open(name string, flags int) (*os.File, error) {
	for begin := time.Now(); ; time.Sleep(openPause) {
		f, err := os.OpenFile(name, flags, fileMode)
		if err == nil || !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) || time.Since(begin) > openTime {
			return f, err
		}
	}
}

func (osFS) RemoveAll(dir string) error { return os.RemoveAll(dir) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

// readDir returns what is in a directory, by name.
func readDir(dir string) ([]fs.DirEntry, error) {
	f, err := open(dir, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, errors.Join(err, f.Close())
}

func (osFS) List(dir string) ([]FileInfo, error) {
	entries, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	files := make([]FileInfo, 0, len(entries))
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // removed since ReadDir
		}
		if err != nil {
			return nil, err
		}
		files = append(files, FileInfo{Name: e.Name(), Size: info.Size()})
	}
	return files, nil
}

func (o osFS) MkdirAll(dir string) error {
	return makeDirs(dir, exists, func(dir string) error { return os.Mkdir(dir, dirMode) }, o.SyncDir)
}

func exists(dir string) (bool, error) {
	_, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// makeDirs syncs the parent of every level that it adds, before the next: a
// directory is a name in its parent, and a log whose directory a power cut
// takes away is lost however well its files were synced. The lowest level that
// was there already may have been made by a process that was killed before it
// synced; all above it are durable.
func makeDirs(dir string, exists func(string) (bool, error), mkdir, sync func(string) error) error {
	parent := filepath.Dir(dir)
	there, err := exists(dir)
	if err != nil {
		return err
	}
	if there {
		err := sync(parent)
		if errors.Is(err, fs.ErrPermission) {
			return nil // we may not read the parent: whoever made dir gave it to us
		}
		return err
	}
	if err := makeDirs(parent, exists, mkdir, sync); err != nil {
		return err
	}
	if err := mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return sync(parent)
}

func (osFS) ListDirs(dir string) ([]string, error) {
	entries, err := readDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (osFS) SyncDir(dir string) error {
	f, err := open(dir, os.O_RDONLY)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (osFS) OpenDir(dir string) (Directory, error) {
	f, err := open(dir, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFS) Free(dir string) (free, total int64, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := int64(stat.Bsize)
	return int64(stat.Bavail) * block, int64(stat.Blocks) * block, nil
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	closer, err := flock(f, unix.LOCK_EX)
	if err == nil {
		closeToOthers(filepath.Dir(name))
	}
	return closer, err
}

// closeToOthers takes a directory from all users but its own: it may have been made by hand,
// or by a release that let them read. One of another user, such as the root of a mounted
// volume, stays as it is.
func closeToOthers(dir string) {
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&^dirMode != 0 {
		_ = os.Chmod(dir, info.Mode()&^(fs.ModePerm&^dirMode))
	}
}

// flock locks f, and closes it if another process keeps it from that.
func flock(f *os.File, how int) (io.Closer, error) {
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: another process holds the lock: %w", f.Name(), err)
	}
	return locked{f}, nil
}

// locked is a file with a lock of flock.
type locked struct{ file *os.File }

// Close ends the lock, then closes the file. To close it would not suffice: a process that is
// being started has a copy of the file until it runs its program, and the lock with it.
func (l locked) Close() error {
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}

type osFile struct{ *os.File }

// vectorMax is IOV_MAX of Linux: more buffers in one call are refused.
const vectorMax = 1024

func (f osFile) WriteVector(buffers [][]byte, position int64) error {
	buffers = dropFront(buffers, 0)
	if len(buffers) == 1 {
		_, err := f.WriteAt(buffers[0], position)
		return err
	}
	for len(buffers) > 0 {
		n, err := unix.Pwritev(int(f.Fd()), buffers[:min(len(buffers), vectorMax)], position)
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return &os.PathError{Op: "pwritev", Path: f.Name(), Err: err}
		}
		position += int64(n)
		buffers = dropFront(buffers, n)
	}
	return nil
}

// dropFront forgets the first n bytes of buffers.
func dropFront(buffers [][]byte, n int) [][]byte {
	for n > 0 {
		if n < len(buffers[0]) {
			buffers[0] = buffers[0][n:]
			break
		}
		n -= len(buffers[0])
		buffers = buffers[1:]
	}
	for len(buffers) > 0 && len(buffers[0]) == 0 {
		buffers = buffers[1:] // a write of nothing would look like one that was cut short
	}
	return buffers
}

func (f osFile) Datasync() error {
	for {
		err := datasync(int(f.Fd()))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
		return nil
	}
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) Prefetch(position, length int64) {
	willNeed(int(f.Fd()), position, length)
}
