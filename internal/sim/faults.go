package sim

import (
	"syscall"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/testkit/faultdisk"
)

// faults come one after the other, at random, until the world is healed.
type faults struct {
	over  bool
	every int64 // us between two, on average
	// Of so many nodes that go down one is damaged; 0: none.
	damage int
	// changes: the operator is busy.
	changes bool
	// ambush: of so many votes one is followed by the worst that can happen to
	// it; 0: none.
	ambush int
}

// begin lets the faults come.
func (w *world) beginFaults() {
	w.network.loss, w.network.repeat, w.network.late = w.dice(0, 20, 100, 500), w.dice(0, 50, 200), w.dice(0, 10, 50)
	w.faults.damage, w.faults.changes = w.dice(0, 2, 4), !w.chance(3)
	if w.aged {
		w.faults.damage = 1
	}
	w.faults.every = int64(w.dice(200, 700, 2000)) * millisecond
	w.faults.ambush = w.dice(0, 0, 2)
	w.nextFault()
}

// dice draws one of the numbers.
func (w *world) dice(of ...int) int { return of[w.random.IntN(len(of))] }

func (w *world) nextFault() {
	w.after(w.between(0, 2*w.faults.every), func() {
		if !w.faults.over {
			w.fault()
			w.nextFault()
		}
	})
}

func (w *world) fault() {
	n := w.victim()
	switch w.random.IntN(16) {
	case 0, 1:
		if n.up {
			n.die(false)
		}
	case 2:
		if n.up {
			n.die(true)
		}
	case 3:
		n.doomed = true
	case 4:
		// The power of all.
		if w.chance(3) {
			for _, n := range w.nodes {
				if n.up {
					n.die(true)
				}
			}
		}
	case 5:
		// The power goes in the middle of something.
		n.disk.StopAt(1 + w.random.IntN(12))
		w.counts.DiskFaults++
	case 6:
		op := []faultdisk.Op{faultdisk.Write, faultdisk.Datasync, faultdisk.Create, faultdisk.Rename, faultdisk.SyncDir, faultdisk.Any}[w.random.IntN(6)]
		err := []error{syscall.EIO, syscall.ENOSPC}[w.random.IntN(2)]
		n.disk.FailNth(op, 1+w.random.IntN(20), err)
		w.counts.DiskFaults++
	case 7:
		n.paused = w.now + w.between(50*millisecond, 3*second)
		w.counts.Pauses++
	case 8:
		n.wall += w.between(-3_600_000, 3_600_000)
		w.counts.ClockJumps++
	case 9:
		n.slow = w.between(0, 100*millisecond)
		w.counts.SlowDisks++
	case 10:
		if n.serves() {
			n.act(n.life, func() { n.replica.BeginHandOver() })
			w.counts.Handovers++
		}
	case 11:
		// Somebody else fills the disk, or makes room.
		if n.disk.Capacity(0); w.chance(2) {
			n.disk.Capacity(n.disk.Used() + w.between(0, 2*minFree))
			w.counts.FullDisks++
		}
	case 12, 13:
		if w.faults.changes {
			w.operate()
		}
	default:
		w.partition(n)
	}
}

// victim is half the time who leads, as far as it knows: that is where a fault
// does most.
func (w *world) victim() *node {
	if w.chance(2) {
		for _, n := range w.nodes {
			if n.serves() && n.replica.Status().Leading {
				return n
			}
		}
	}
	return w.nodes[w.random.IntN(len(w.nodes))]
}

// partition cuts a node off, from all or from one, both ways or one, for a while.
func (w *world) partition(n *node) {
	w.counts.Partitions++
	in, out, whole := !w.chance(3), !w.chance(3), !w.chance(3)
	var cut []way
	for _, other := range w.nodes {
		if other == n || !whole && len(cut) > 0 {
			continue
		}
		if in || !out {
			cut = append(cut, way{other.id, n.id})
		}
		if out || !in {
			cut = append(cut, way{n.id, other.id})
		}
	}
	w.cut(cut)
}

// cut loses everything that is sent some ways, for a while.
func (w *world) cut(cut []way) {
	for _, c := range cut {
		w.network.cut[c] = true
	}
	w.after(w.between(50*millisecond, 5*second), func() {
		for _, c := range cut {
			delete(w.network.cut, c)
		}
	})
}

// ambush is called after each write, with the hard state before and after it.
// Two kinds of moments are too short for chance to hit them often: when what was
// just written has been told to others, and when a vote has been given. Then the
// power goes, and who was voted for may be cut off.
func (n *node) ambush(before, after segment.HardState) {
	w, life := n.world, n.life
	voted := w.faults.ambush > 0 && !w.faults.over && after.Term > before.Term && after.Vote != 0 && after.Vote != n.replicaID && w.chance(w.faults.ambush)
	if voted {
		w.after(w.between(millisecond, 4*millisecond), func() { n.isolate(after.Vote) })
	}
	if voted || n.doomed {
		n.doomed = false
		w.after(w.between(0, 4*millisecond), func() {
			if n.life == life {
				n.die(true)
			}
		})
	}
}

// isolate cuts the node of another replica off, if it is known here.
func (n *node) isolate(replica uint64) {
	if node := n.nodeOf(replica); node != 0 {
		n.world.isolate(n.world.nodes[node-1])
	}
}

// isolate cuts a node off from all others for a while.
func (w *world) isolate(n *node) {
	var cut []way
	for _, other := range w.nodes {
		if other != n {
			cut = append(cut, way{n.id, other.id}, way{other.id, n.id})
		}
	}
	w.cut(cut)
}

// heal ends all faults. Processes that are down come back by themselves.
func (w *world) heal() {
	w.faults.over = true
	clear(w.network.cut)
	w.network.loss, w.network.repeat, w.network.late = 0, 0, 0
	for _, n := range w.nodes {
		n.paused, n.slow, n.doomed = 0, 0, false
		n.disk.Capacity(0)
		// What is left of a fault that has not struck yet.
		if n.up {
			n.die(false)
		} else {
			n.disk.Restart()
		}
	}
}
