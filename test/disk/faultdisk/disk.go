// Package faultdisk implements a disk in memory that fails as disks do: it loses unsynced bytes,
// keeps half of a write, flips bits, reports errors, fills up. It implements vfs.FS and is driven
// by tests. With the same seed and the same calls it fails in the same way.
//
// Start with Disk. File content and directory entries exist twice: as programs see them, and as the
// disk has stored them. This package models the difference.
package faultdisk

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"

	"strandline.dev/internal/vfs"
)

// ErrStopped answers every operation from the one at which the disk was set
// to stop, and every use of a file that was opened before a power cut or a
// restart.
var ErrStopped = errors.New("disk stopped")

// Op is a kind of operation.
type Op string

const (
	Any      Op = "" // in FailNth: whichever comes
	Create   Op = "create"
	Open     Op = "open"
	Read     Op = "read"
	Write    Op = "write"
	Datasync Op = "datasync"
	Rename   Op = "rename"
	Remove   Op = "remove"
	SyncDir  Op = "syncdir"
	List     Op = "list"
)

// changes reports whether an operation of this kind can leave something
// half-done.
func (o Op) changes() bool {
	return o == Create || o == Write || o == Datasync || o == Rename || o == Remove || o == SyncDir
}

// Disk is a file system. Its methods may be called by many goroutines.
type Disk struct {
	tree
	random     *rand.Rand
	generation int // raised by PowerCut and Restart: older files are dead
	locked     map[string]bool
}

var _ vfs.FS = (*Disk)(nil)

// New makes an empty disk. The seed decides what a power cut leaves of what
// was not synced.
func New(seed uint64) *Disk {
	return &Disk{
		random: rand.New(rand.NewPCG(seed, 0)), locked: map[string]bool{},
		tree: tree{
			faults: faults{calls: map[Op]int{}},
			names:  map[string]*inode{}, durable: map[string]*inode{}, dirs: map[string]bool{".": true, "/": true},
		},
	}
}

func (d *Disk) Create(name string) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	halfway, err := d.begin(Create, name)
	if err != nil && !halfway {
		return nil, failed(Create, name, err)
	}
	if d.names[name] != nil {
		return nil, failed(Create, name, fs.ErrExist)
	}
	if !d.dirs[path.Dir(name)] {
		return nil, failed(Create, name, fs.ErrNotExist)
	}
	n := &inode{}
	if err == nil || d.stopped {
		d.names[name] = n
		d.pending = append(d.pending, change{op: Create, from: name, file: n})
	}
	if err != nil {
		return nil, failed(Create, name, err)
	}
	return &file{d, name, n, d.generation}, nil
}

// look begins an operation on a file that is there.
func (d *Disk) look(op Op, name string) (n *inode, err error) {
	if _, err = d.begin(op, name); err == nil {
		if n = d.names[name]; n == nil {
			err = fs.ErrNotExist
		}
	}
	return n, failed(op, name, err)
}

// failed is the error of an operation; nil if err is.
func failed(op Op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: string(op), Path: name, Err: err}
}

func (d *Disk) Open(name string) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.look(Open, name)
	if err != nil {
		return nil, err
	}
	return &file{d, name, n, d.generation}, nil
}

// OpenStored reads what a power cut would leave, and what is still to be synced.
func (d *Disk) OpenStored(name string) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.look(Open, name)
	if err != nil {
		return nil, err
	}
	stored := &inode{seen: slices.Clone(n.platter), holes: n.holes}
	for _, e := range n.cached {
		stored.seen = overwrite(stored.seen, e.position, e.data)
	}
	return &file{d, name, stored, d.generation}, nil
}

func (d *Disk) ReadFile(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.look(Read, name)
	if err != nil {
		return nil, err
	}
	if len(n.holes) > 0 {
		return nil, failed(Read, name, syscall.EIO)
	}
	return slices.Clone(n.seen), nil
}

func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	halfway, err := d.begin(Remove, name)
	if err == nil && d.names[name] == nil {
		err = fs.ErrNotExist
	}
	if err == nil || halfway && d.stopped {
		delete(d.names, name)
		d.pending = append(d.pending, change{op: Remove, from: name})
	}
	return failed(Remove, name, err)
}

func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	halfway, err := d.begin(Rename, from)
	n := d.names[from]
	if err == nil && n == nil {
		err = fs.ErrNotExist
	}
	if n != nil && (err == nil || halfway && d.stopped) {
		delete(d.names, from)
		d.names[to] = n
		d.pending = append(d.pending, change{op: Rename, from: from, to: to, file: n})
	}
	return failed(Rename, from, err)
}

func (d *Disk) List(dir string) ([]vfs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.begin(List, dir); err != nil {
		return nil, failed(List, dir, err)
	}
	if !d.dirs[path.Clean(dir)] {
		return nil, failed(List, dir, fs.ErrNotExist)
	}
	var infos []vfs.FileInfo
	for name, n := range d.names {
		if path.Dir(name) == path.Clean(dir) {
			infos = append(infos, vfs.FileInfo{Name: path.Base(name), Size: int64(len(n.seen))})
		}
	}
	slices.SortFunc(infos, func(a, b vfs.FileInfo) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

func (d *Disk) ListDirs(dir string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.begin(List, dir); err != nil {
		return nil, failed(List, dir, err)
	}
	var names []string
	for name := range d.dirs {
		if clean := path.Clean(dir); name != clean && path.Dir(name) == clean {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (d *Disk) MkdirAll(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return ErrStopped
	}
	for dir = path.Clean(dir); !d.dirs[dir]; dir = path.Dir(dir) {
		d.dirs[dir] = true
	}
	return nil
}

func (d *Disk) RemoveAll(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return ErrStopped
	}
	inside := path.Clean(dir) + "/"
	for name := range d.names {
		if strings.HasPrefix(name, inside) {
			delete(d.names, name)
			d.pending = append(d.pending, change{op: Remove, from: name})
		}
	}
	for name := range d.dirs {
		if strings.HasPrefix(name+"/", inside) {
			delete(d.dirs, name)
		}
	}
	return nil
}

func (d *Disk) OpenDir(dir string) (vfs.Directory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.begin(Open, dir); err != nil {
		return nil, failed(Open, dir, err)
	}
	if !d.dirs[dir] {
		return nil, failed(Open, dir, fs.ErrNotExist)
	}
	return directory{d, dir}, nil
}

// directory is open.
type directory struct {
	disk *Disk
	name string
}

func (d directory) Sync() error { return d.disk.SyncDir(d.name) }

func (directory) Close() error { return nil }

func (d *Disk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.begin(SyncDir, dir); err != nil {
		return failed(SyncDir, dir, err)
	}
	var rest []change
	for _, c := range d.pending {
		if path.Dir(c.from) != path.Clean(dir) {
			rest = append(rest, c)
			continue
		}
		c.apply(d.durable)
	}
	d.pending = rest
	return nil
}

func (d *Disk) Free(string) (free, total int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.capacity == 0 {
		return 1 << 40, 1 << 40, nil
	}
	return max(0, d.capacity-d.used()), d.capacity, nil
}

func (d *Disk) Lock(name string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locked[name] {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: syscall.EWOULDBLOCK}
	}
	d.locked[name] = true
	return unlock(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.locked, name)
	}), nil
}

type unlock func()

func (u unlock) Close() error { u(); return nil }
