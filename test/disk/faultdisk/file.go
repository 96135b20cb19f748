package faultdisk

import (
	"io"
	"slices"
	"syscall"
)

// file is an open file.
type file struct {
	disk       *Disk
	name       string
	inode      *inode
	generation int
}

// alive is asked with the disk locked.
func (f *file) alive() error {
	if f.generation != f.disk.generation {
		return ErrStopped
	}
	return nil
}

func (f *file) ReadAt(b []byte, position int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	_, err := f.disk.begin(Read, f.name)
	if err == nil {
		err = f.alive()
	}
	if err != nil {
		return 0, failed(Read, f.name, err)
	}
	if position >= int64(len(f.inode.seen)) {
		return 0, io.EOF
	}
	for _, h := range f.inode.holes {
		if position < h[1] && position+int64(len(b)) > h[0] {
			return 0, failed(Read, f.name, syscall.EIO)
		}
	}
	n := copy(b, f.inode.seen[position:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(b []byte, position int64) (int, error) {
	if err := f.WriteVector([][]byte{b}, position); err != nil {
		return 0, err
	}
	return len(b), nil
}

// WriteVector is one operation. If it fails, its first half is written.
func (f *file) WriteVector(buffers [][]byte, position int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.alive(); err != nil {
		return failed(Write, f.name, err)
	}
	halfway, err := f.disk.begin(Write, f.name)
	data := slices.Concat(buffers...)
	if halfway && !f.disk.stopped {
		data = data[:len(data)/2]
	}
	if err != nil && !halfway {
		return failed(Write, f.name, err)
	}
	grows := position + int64(len(data)) - int64(len(f.inode.seen))
	if c := f.disk.capacity; c > 0 && grows > 0 && f.disk.used()+grows > c {
		return failed(Write, f.name, syscall.ENOSPC)
	}
	f.inode.seen = overwrite(f.inode.seen, position, data)
	f.inode.cached = append(f.inode.cached, extent{position, data})
	return failed(Write, f.name, err)
}

func overwrite(content []byte, position int64, data []byte) []byte {
	if grow := position + int64(len(data)) - int64(len(content)); grow > 0 {
		content = append(content, make([]byte, grow)...)
	}
	copy(content[position:], data)
	return content
}

// Datasync that fails does what Linux does: the pages count as written from
// then on, are seen by everyone, and never reach the platter.
func (f *file) Datasync() error {
	if err := f.disk.syncing(f.inode); err != nil {
		return failed(Datasync, f.name, err)
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.alive(); err != nil {
		return failed(Datasync, f.name, err)
	}
	if _, err := f.disk.begin(Datasync, f.name); err != nil {
		if !f.disk.stopped {
			f.inode.cached = nil
		}
		return failed(Datasync, f.name, err)
	}
	for _, e := range f.inode.cached {
		f.inode.platter = overwrite(f.inode.platter, e.position, e.data)
	}
	f.inode.cached = nil
	return nil
}

func (f *file) Size() (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return int64(len(f.inode.seen)), f.alive()
}

// Pages are what a socket refers to that was given bytes of a file without a copy: they stay when
// the file is closed or removed, and when its process ends, and whoever writes to the file changes them.
type Pages struct {
	disk  *Disk
	inode *inode
}

// PagesOf returns the pages of an open file of a Disk.
func PagesOf(f io.ReaderAt) Pages {
	of := f.(*file)
	return Pages{of.disk, of.inode}
}

// Read returns what is in them now.
func (p Pages) Read(position int64, size int) []byte {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	seen := p.inode.seen
	from := min(position, int64(len(seen)))
	return slices.Clone(seen[from:min(position+int64(size), int64(len(seen)))])
}

// Changed counts the changes behind the back of programs.
func (p Pages) Changed() int {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	return p.inode.changed
}

func (f *file) Prefetch(int64, int64) {}

func (f *file) Close() error { return nil }
