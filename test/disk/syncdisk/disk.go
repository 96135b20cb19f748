// Package syncdisk implements a disk on top of another one, on which a test can delay or fail
// syncs.
package syncdisk

import (
	"sync"
	"sync/atomic"

	"strandline.dev/internal/vfs"
)

// Disk leaves everything but syncs to FS.
type Disk struct {
	vfs.FS
	// Only are the files that it is about, by their names; nil: all.
	Only func(name string) bool

	held   sync.RWMutex // locked while it is held
	broken atomic.Pointer[error]
}

// Hold waits for the syncs under way and lets none end until release, which may be called
// more than once.
func (d *Disk) Hold() (release func()) {
	d.held.Lock()
	return sync.OnceFunc(d.held.Unlock)
}

// Break fails every sync from now on.
func (d *Disk) Break(err error) { d.broken.Store(&err) }

// Open opens a file of FS.
func (d *Disk) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return d.wrap(name, f), err
}

// Create creates a file on FS.
func (d *Disk) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return d.wrap(name, f), err
}

func (d *Disk) wrap(name string, f vfs.File) vfs.File {
	if f == nil || d.Only != nil && !d.Only(name) {
		return f
	}
	return file{f, d}
}

type file struct {
	vfs.File
	disk *Disk
}

func (f file) Datasync() error {
	f.disk.held.RLock()
	defer f.disk.held.RUnlock()
	if err := f.disk.broken.Load(); err != nil {
		return *err
	}
	return f.File.Datasync()
}
