package faultdisk

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// tree is the files of a disk, which tests may change behind the back of programs.
type tree struct {
	faults
	names    map[string]*inode // as programs see them
	durable  map[string]*inode // as a power cut leaves them
	dirs     map[string]bool   // directories are durable when made
	pending  []change          // of names, in order, since their directory was synced
	capacity int64             // 0: no limit
}

// inode is the content of a file.
type inode struct {
	seen    []byte // as programs see it
	platter []byte // as a power cut leaves it
	cached  []extent
	holes   [][2]int64 // [from, to) cannot be read
	changed int        // how often somebody changed it behind the back of programs
}

// extent is a write that has not been synced.
type extent struct {
	position int64
	data     []byte
}

// change is a directory operation that has not been synced.
type change struct {
	op       Op
	from, to string // from only, unless op is Rename
	file     *inode
}

// apply does the change on the durable names. A rename of a file whose
// creation was lost creates it: the entry points at the file either way.
func (c change) apply(names map[string]*inode) {
	switch c.op {
	case Create:
		names[c.from] = c.file
	case Remove:
		delete(names, c.from)
	case Rename:
		delete(names, c.from)
		names[c.to] = c.file
	}
}

func (t *tree) used() int64 {
	sum := int64(0)
	for _, n := range t.names {
		sum += int64(len(n.seen))
	}
	return sum
}

// Capacity makes the disk hold bytes of files; 0: no limit.
func (t *tree) Capacity(bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.capacity = bytes
}

// Used is the size of all files.
func (t *tree) Used() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used()
}

// FlipBit flips the lowest bit of one byte, for good.
func (t *tree) FlipBit(name string, position int64) {
	t.Change(name, position, func(b byte) byte { return b ^ 1 })
}

// Change replaces one byte, for good.
func (t *tree) Change(name string, position int64, by func(byte) byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.names[name]
	if n == nil || position >= int64(len(n.seen)) {
		panic(fmt.Sprintf("no byte %d in %s", position, name))
	}
	n.seen[position] = by(n.seen[position])
	n.changed++
	if position < int64(len(n.platter)) {
		n.platter[position] = n.seen[position]
	}
	for _, e := range n.cached { // or else a sync would undo it
		if at := position - e.position; at >= 0 && at < int64(len(e.data)) {
			e.data[at] = n.seen[position]
		}
	}
}

// FlipStored flips a bit of what is stored of a file, which is cached in memory as
// it was: programs see it after a power cut only.
func (t *tree) FlipStored(name string, position int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.names[name]
	if n == nil || position >= int64(len(n.platter)) {
		panic("nothing is stored there of " + name)
	}
	n.platter = slices.Clone(n.platter)
	n.platter[position] ^= 1
}

// Unreadable lets reads of some bytes of a file fail with EIO, for good.
func (t *tree) Unreadable(name string, position, size int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.names[name]
	if n == nil {
		panic("no file " + name)
	}
	n.holes = append(n.holes, [2]int64{position, position + size})
}

// Replace puts a file in place for good, as somebody does who restores an old
// copy; there need not be one of that name. Its directory must be there.
func (t *tree) Replace(name string, content []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.dirs[path.Dir(name)] {
		panic("no directory for " + name)
	}
	n := &inode{seen: slices.Clone(content), platter: slices.Clone(content)}
	t.forget(name)
	t.names[name], t.durable[name] = n, n
}

// Lose takes a file away for good, if there is one.
func (t *tree) Lose(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(name)
	delete(t.names, name)
	delete(t.durable, name)
}

// forget drops the pending changes of a name that something else has happened to. A
// file that was being renamed to it is still to lose its old name.
func (t *tree) forget(name string) {
	t.pending = slices.DeleteFunc(t.pending, func(c change) bool { return c.from == name && c.op != Rename })
	for i, c := range t.pending {
		switch {
		case c.op == Rename && c.from == name:
			t.pending[i] = change{op: Create, from: c.to, file: c.file}
		case c.op == Rename && c.to == name:
			t.pending[i] = change{op: Remove, from: c.from}
		}
	}
}

// Content returns a copy of a file as programs see it; nil if there is none.
func (t *tree) Content(name string) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.names[name]; n != nil {
		return slices.Clone(n.seen)
	}
	return nil
}

// Names returns all files, sorted.
func (t *tree) Names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return sortedNames(t.names)
}

// NamesIn returns the files in a directory, sorted, with their whole names.
func (t *tree) NamesIn(dir string) (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	inside := dir + "/"
	for name := range t.names {
		if strings.HasPrefix(name, inside) && !strings.Contains(name[len(inside):], "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func sortedNames(names map[string]*inode) []string {
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}
