// Package filebucket keeps an archive in a directory.
package filebucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"

	"strandline.dev/internal/archive"
	"strandline.dev/internal/vfs"
)

// Bucket is a directory. Several processes may use it, on file systems where flock works between
// their machines. An object is durable when Put returns, and a crash leaves either the old or the
// new one.
type Bucket struct {
	disk vfs.FS
	dir  string
}

// New returns the bucket of a directory, which the first Put creates.
func New(disk vfs.FS, dir string) *Bucket { return &Bucket{disk, dir} }

// String implements archive.Bucket.
func (b *Bucket) String() string { return "file://" + b.dir }

func version(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Get implements archive.Bucket.
func (b *Bucket) Get(_ context.Context, name string, limit int64) ([]byte, string, error) {
	data, err := b.read(name, limit)
	if err != nil {
		return nil, "", failed("get", name, err)
	}
	return data, version(data), nil
}

func (b *Bucket) read(name string, limit int64) ([]byte, error) {
	file, err := b.disk.Open(path.Join(b.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, archive.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err == nil && size > limit {
		err = archive.ErrTooLarge
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return vfs.ReadWhole(file)
}

// lockPause lies between two attempts to get the lock that another process has.
const lockPause = 20 * time.Millisecond

// Put implements archive.Bucket. Puts follow each other under a lock, so that no other Put comes
// between the comparison and the rename.
func (b *Bucket) Put(ctx context.Context, name string, data []byte, old string) (string, error) {
	if err := b.put(ctx, name, data, old); err != nil {
		return "", failed("put", name, err)
	}
	return version(data), nil
}

func (b *Bucket) put(ctx context.Context, name string, data []byte, old string) (err error) {
	full := path.Join(b.dir, name)
	if err := b.disk.MkdirAll(path.Dir(full)); err != nil {
		return err
	}
	lock, err := b.disk.Lock(path.Join(b.dir, "lock"))
	for errors.Is(err, syscall.EWOULDBLOCK) {
		pause := time.NewTimer(lockPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("another process has the lock: %w", ctx.Err())
		case <-pause.C:
		}
		lock, err = b.disk.Lock(path.Join(b.dir, "lock"))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	now, err := b.read(name, archive.MaxManifestBytes)
	switch {
	case errors.Is(err, archive.ErrNotFound) && old == "":
	case errors.Is(err, archive.ErrNotFound), err == nil && version(now) != old, errors.Is(err, archive.ErrTooLarge):
		return archive.ErrChanged
	case err != nil:
		return err
	}
	return vfs.WriteFileDurably(b.disk, full, data)
}

// List implements archive.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, suffix string) (names []string, err error) {
	var walk func(dir string) error
	walk = func(dir string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		files, err := b.disk.List(path.Join(b.dir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, f := range files {
			if name := dir + f.Name; strings.HasSuffix(name, suffix) && !strings.HasSuffix(name, vfs.TemporarySuffix) {
				names = append(names, name)
			}
		}
		dirs, err := b.disk.ListDirs(path.Join(b.dir, dir))
		if err != nil {
			return err
		}
		for _, d := range dirs {
			if err := walk(dir + d + "/"); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(prefix); err != nil {
		return nil, failed("list", prefix, err)
	}
	return names, nil
}

// failed turns an error into one of archive's.
func failed(op, name string, err error) error {
	for _, known := range []error{archive.ErrNotFound, archive.ErrChanged, archive.ErrTooLarge} {
		if errors.Is(err, known) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	refused := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
	return &archive.Error{Op: op, Name: name, Err: err, Refused: refused}
}
