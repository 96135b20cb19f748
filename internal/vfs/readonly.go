package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ReadOnly is the file system of this machine without changes: files are opened for
// reading, and whatever would change one, or a directory, fails with fs.ErrPermission.
//
// Lock locks an existing file for reading: other readers may lock it too, writers may not.
func ReadOnly() FS { return readOnly{} }

type readOnly struct{ osFS }

func (readOnly) Open(name string) (File, error) {
	f, err := open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (readOnly) Lock(name string) (io.Closer, error) {
	f, err := open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return flock(f, unix.LOCK_SH)
}

func (readOnly) Create(name string) (File, error) { return nil, refuse("create", name) }
func (readOnly) Remove(name string) error         { return refuse("remove", name) }
func (readOnly) Rename(from, _ string) error      { return refuse("rename", from) }
func (readOnly) MkdirAll(dir string) error        { return refuse("make", dir) }
func (readOnly) RemoveAll(dir string) error       { return refuse("remove", dir) }

func refuse(what, name string) error {
	return fmt.Errorf("%s %s: read-only file system: %w", what, name, fs.ErrPermission)
}
