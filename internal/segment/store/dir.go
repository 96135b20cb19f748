package store

import (
	"sync"

	"strandline.dev/internal/vfs"
)

// Dir is the directory of a log: its files by their names, whether the log is open
// or damaged.
type Dir struct {
	FS      vfs.FS
	Path    string
	Options Options
	begun   beginMark

	// held is open for as long as the log is, so that a process which has run out
	// of descriptors can go on writing. Without it each sync opens the directory.
	held struct {
		sync.Mutex
		directory vfs.Directory
	}
}

// NewDir returns the directory of a log.
func NewDir(disk vfs.FS, path string, o Options) *Dir {
	return &Dir{FS: disk, Path: path, Options: o.withDefaults()}
}

// hold keeps the directory open until close.
func (d *Dir) hold() error {
	directory, err := d.FS.OpenDir(d.Path)
	if err != nil {
		return err
	}
	d.held.Lock()
	defer d.held.Unlock()
	d.held.directory = directory
	return nil
}

// syncDir makes creations, renames and removals durable.
func (d *Dir) SyncDir() error {
	d.held.Lock()
	defer d.held.Unlock()
	if d.held.directory == nil {
		return d.FS.SyncDir(d.Path)
	}
	return d.held.directory.Sync()
}

func (d *Dir) close() error {
	d.held.Lock()
	defer d.held.Unlock()
	if d.held.directory == nil {
		return nil
	}
	directory := d.held.directory
	d.held.directory = nil
	return directory.Close()
}
