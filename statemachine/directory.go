package statemachine

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Directory stores snapshots by name: a folder of files, or a bucket of an object store. Replicas may
// share one. Its methods are called from several goroutines.
type Directory interface {
	// Put stores what content writes. When it returns without an error, the snapshot is durable and
	// in List. Until then, and after an error, it is not in List, or whole.
	Put(ctx context.Context, name string, content io.WriterTo) error
	// Get opens a snapshot and returns its size in bytes. The error is fs.ErrNotExist if there is
	// none with the name.
	Get(ctx context.Context, name string) (content io.ReadCloser, size int64, err error)
	// List returns the names of the snapshots in any order. It may return other names too.
	List(ctx context.Context) ([]string, error)
	// Delete removes a snapshot. It is no error if there is none with the name.
	Delete(ctx context.Context, name string) error
	// Location returns where a snapshot is, in at most 4 KiB, for people and for programs that are
	// directed to it by the pointer of the hold.
	Location(name string) string
}

// Files is a Directory of files in the folder with a path, which is created with the first snapshot.
func Files(path string) Directory { return files(path) }

type files string

// unfinished begins the names of files that are being written.
const unfinished = ".new-"

func (f files) path(name string) string { return filepath.Join(string(f), name) }

func (f files) Put(ctx context.Context, name string, content io.WriterTo) error {
	if err := makeFolder(string(f)); err != nil {
		return err
	}
	// The name is of this writer alone: another replica may store the same snapshot.
	temporary := f.path(unfinished + name + "-" + rand.Text())
	if err := write(temporary, content); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, f.path(name)); err != nil {
		return err
	}
	if err := syncFolder(string(f)); err != nil {
		return err
	}
	f.clean(name)
	return nil
}

// write creates a file that is durable, except for its name.
func write(path string, content io.WriterTo) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = content.WriteTo(file); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// makeFolder creates a folder that does not exist, with those above it, and makes their names durable.
func makeFolder(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(parent)
}

// clean removes what writers of earlier snapshots of the log have left when they were killed. One that still
// writes fails, and its snapshot is not needed.
func (f files) clean(name string) {
	log := name[:strings.IndexByte(name, '-')+1]
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return
	}
	for _, e := range entries {
		if of, found := strings.CutPrefix(e.Name(), unfinished); found && strings.HasPrefix(of, log) && of < name {
			_ = os.Remove(f.path(e.Name()))
		}
	}
}

func (f files) Get(_ context.Context, name string) (io.ReadCloser, int64, error) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

func (f files) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), unfinished) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (f files) Delete(_ context.Context, name string) error {
	if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f files) Location(name string) string {
	path, err := filepath.Abs(f.path(name))
	if err != nil {
		return f.path(name)
	}
	return path
}
