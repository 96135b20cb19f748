// Package vfs is the little of a file system that a log needs. It reaches the disk
// through FS only, so tests can put a bad one behind it.
package vfs

import (
	"errors"
	"io"
	"syscall"
)

// FS is the little of a file system that a log needs. OS is the real one;
// tests put a disk behind it that forgets, tears, flips and fills up.
//
// Two things are promised to become durable separately, as on a real disk:
// the bytes of a file by File.Datasync, the names in a directory by SyncDir.
// Names are slash-separated paths.
type FS interface {
	// Create makes a new file for reading and writing; it is an error
	// (fs.ErrExist) if the name is taken.
	Create(name string) (File, error)

	// Open opens an existing file for reading and writing. Each call gives a
	// handle of its own: a failed write-back is reported once to each.
	Open(name string) (File, error)

	// OpenStored opens an existing file for reading what is stored of it, as
	// against what is kept of it in memory.
	OpenStored(name string) (File, error)

	// ReadFile reads a small file whole; fs.ErrNotExist if there is none.
	ReadFile(name string) ([]byte, error)

	// Remove deletes a file.
	Remove(name string) error

	// Rename moves a file, replacing what has the new name.
	Rename(from, to string) error

	// List returns the files in dir, sorted by name, without subdirectories.
	List(dir string) ([]FileInfo, error)

	// ListDirs returns the names of the directories in dir, sorted; none if
	// there is no dir.
	ListDirs(dir string) ([]string, error)

	// MkdirAll makes dir and the directories above it. They are durable when
	// it returns.
	MkdirAll(dir string) error

	// RemoveAll deletes dir with all that is in it; it is no error if there is
	// no dir.
	RemoveAll(dir string) error

	// SyncDir makes creations, renames and removals in dir durable.
	SyncDir(dir string) error

	// OpenDir opens dir, to be synced again and again.
	OpenDir(dir string) (Directory, error)

	// Free returns how many bytes may still be written in dir, and how many
	// its file system has in total.
	Free(dir string) (free, total int64, err error)

	// Lock takes name for this process until the closer is closed. It fails
	// at once if another process has it.
	Lock(name string) (io.Closer, error)
}

// FileInfo is one file of a directory.
type FileInfo struct {
	Name string // without the directory
	Size int64  // bytes
}

// File is an open file. Its methods may be called from many goroutines, as
// with pread and pwrite.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// WriteVector writes the buffers one after another from position on, in
	// one system call if it can. It may change the slice of buffers, never
	// their bytes.
	WriteVector(buffers [][]byte, position int64) error

	// Datasync makes everything written so far durable, the size included.
	Datasync() error

	// Size is the length of the file in bytes.
	Size() (int64, error)

	// Prefetch announces that [position, position+length) will be read soon.
	Prefetch(position, length int64)
}

// Directory is an open directory.
type Directory interface {
	// Sync makes creations, renames and removals in it durable.
	Sync() error
	io.Closer
}

// Unreadable is the error of a disk that has lost bytes, as against a read that failed
// for another reason.
func Unreadable(err error) bool { return errors.Is(err, syscall.EIO) }

// Exhausted reports whether an error says that the process or the machine lacked file
// descriptors or memory. It says nothing of what is stored.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
