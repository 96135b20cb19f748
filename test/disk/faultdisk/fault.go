package faultdisk

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// sector is what a disk writes whole or not at all.
const sector = 512

// Remains is what a power cut leaves of what was not synced.
type Remains int

const (
	// Nothing: the cache was never written back.
	Nothing Remains = iota
	// Everything: it happened to be written back just in time.
	Everything
	// Some: each sector and each directory operation by the toss of a coin.
	Some
)

func (r Remains) String() string { return [...]string{"nothing", "everything", "some"}[r] }

// PowerCut takes the power away and gives it back. What was synced is there.
// It ends what FailNth, StopAt and Lock began; open files are dead.
func (d *Disk) PowerCut(remains Remains) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep := func() bool {
		return remains == Everything || remains == Some && d.random.IntN(2) == 0
	}
	for _, c := range d.pending {
		if keep() {
			c.apply(d.durable)
		}
	}
	d.pending = nil
	d.names = make(map[string]*inode, len(d.durable))
	for _, name := range sortedNames(d.durable) {
		n := d.durable[name]
		for _, e := range n.cached {
			for position, rest := e.position, e.data; len(rest) > 0; {
				size := min(int64(len(rest)), sector-position%sector)
				if keep() {
					n.platter = overwrite(n.platter, position, rest[:size])
				}
				position, rest = position+size, rest[size:]
			}
		}
		n.cached = nil
		n.seen = slices.Clone(n.platter)
		d.names[name] = n
	}
	d.restart()
}

// Restart kills the process: what it wrote stays, synced or not.
func (d *Disk) Restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.restart()
}

func (d *Disk) restart() {
	d.generation++
	d.stopped, d.stopAt, d.faults = false, 0, nil
	clear(d.locked)
}

// StopAt stops the disk at the n-th operation from now on that changes
// something: it may have happened, in part or not at all, and nothing happens
// after it.
func (d *Disk) StopAt(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopAt = d.operations + n
}

// Halt stops the disk between two operations, as at the end of a process whose
// operations must not go on.
func (d *Disk) Halt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
}

// Disarm takes back the faults that FailNth and StopAt have announced and that
// have not come.
func (d *Disk) Disarm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopAt, d.faults = 0, nil
}

// BeforeSync has f called at each Datasync of a file, with its name, before it
// takes effect; an error becomes that of the Datasync. Other operations may go on
// meanwhile. nil: nothing is called.
func (d *Disk) BeforeSync(f func(name string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.beforeSync = f
}

// syncing calls what BeforeSync was given, if anything.
func (d *Disk) syncing(n *inode) error {
	d.mu.Lock()
	f, name := d.beforeSync, ""
	if f != nil {
		for one, file := range d.names {
			if file == n {
				name = one
			}
		}
	}
	d.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(name)
}

// Stopped reports whether the operation of StopAt has come.
func (d *Disk) Stopped() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopped
}

// Operations counts those that change something.
func (d *Disk) Operations() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.operations
}

// Calls counts the operations of one kind.
func (d *Disk) Calls(op Op) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[op]
}

// FailNth makes the n-th operation of kind op from now on answer err.
func (d *Disk) FailNth(op Op, n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &fault{op, n, err})
}

// Armed reports whether a failure of FailNth is still to come.
func (d *Disk) Armed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.faults) > 0
}

// Capacity makes the disk hold bytes of files; 0: no limit.
func (d *Disk) Capacity(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = bytes
}

// Used is the size of all files.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used()
}

// FlipBit flips the lowest bit of one byte, for good.
func (d *Disk) FlipBit(name string, position int64) {
	d.Change(name, position, func(b byte) byte { return b ^ 1 })
}

// Change replaces one byte, for good.
func (d *Disk) Change(name string, position int64, by func(byte) byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[name]
	if n == nil || position >= int64(len(n.seen)) {
		panic(fmt.Sprintf("no byte %d in %s", position, name))
	}
	n.seen[position] = by(n.seen[position])
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
func (d *Disk) FlipStored(name string, position int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[name]
	if n == nil || position >= int64(len(n.platter)) {
		panic("nothing is stored there of " + name)
	}
	n.platter = slices.Clone(n.platter)
	n.platter[position] ^= 1
}

// Unreadable lets reads of some bytes of a file fail with EIO, for good.
func (d *Disk) Unreadable(name string, position, size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[name]
	if n == nil {
		panic("no file " + name)
	}
	n.holes = append(n.holes, [2]int64{position, position + size})
}

// Replace puts a file in place for good, as somebody does who restores an old
// copy; there need not be one of that name. Its directory must be there.
func (d *Disk) Replace(name string, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.dirs[path.Dir(name)] {
		panic("no directory for " + name)
	}
	n := &inode{seen: slices.Clone(content), platter: slices.Clone(content)}
	d.forget(name)
	d.names[name], d.durable[name] = n, n
}

// Lose takes a file away for good, if there is one.
func (d *Disk) Lose(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(name)
	delete(d.names, name)
	delete(d.durable, name)
}

// forget drops the pending changes of a name that something else has happened to. A
// file that was being renamed to it is still to lose its old name.
func (d *Disk) forget(name string) {
	d.pending = slices.DeleteFunc(d.pending, func(c change) bool { return c.from == name && c.op != Rename })
	for i, c := range d.pending {
		switch {
		case c.op == Rename && c.from == name:
			d.pending[i] = change{op: Create, from: c.to, file: c.file}
		case c.op == Rename && c.to == name:
			d.pending[i] = change{op: Remove, from: c.from}
		}
	}
}

// Content returns a copy of a file as programs see it; nil if there is none.
func (d *Disk) Content(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.names[name]; n != nil {
		return slices.Clone(n.seen)
	}
	return nil
}

// Names returns all files, sorted.
func (d *Disk) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return sortedNames(d.names)
}

// NamesIn returns the files in a directory, sorted, with their whole names.
func (d *Disk) NamesIn(dir string) (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	inside := dir + "/"
	for name := range d.names {
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
