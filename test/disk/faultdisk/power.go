package faultdisk

import (
	"slices"
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
	d.stopped, d.stopAt, d.armed = false, 0, nil
	clear(d.locked)
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

// Unsynced returns the lowest position of a file at which something was written and not
// synced, if there is any.
func (d *Disk) Unsynced(name string) (position int64, some bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[name]
	if n == nil {
		return 0, false
	}
	for _, e := range n.cached {
		if !some || e.position < position {
			position, some = e.position, true
		}
	}
	return position, some
}

// WriteBack makes durable what was written to a file below a position, as the kernel may do at
// any time without a sync. What was written from there on is not.
func (d *Disk) WriteBack(name string, below int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[name]
	if n == nil {
		return
	}
	for _, e := range n.cached {
		if size := min(below-e.position, int64(len(e.data))); size > 0 {
			n.platter = overwrite(n.platter, e.position, e.data[:size])
		}
	}
}
