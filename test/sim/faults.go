package sim

import (
	"math"
	"syscall"

	"strandline.dev/internal/segment"
	"strandline.dev/test/disk/faultdisk"
)

// faults come one after the other, at random, until the world is healed.
type faults struct {
	*world
	over  bool
	every int64 // us between two, on average
	mix   mix
	// Of so many nodes that go down one is damaged; 0: none.
	damage int
	// changes: the operator is busy.
	changes bool
	// ambush: of so many votes one is followed by the worst that can happen to
	// it; 0: none.
	ambush int
}

// beginFaults lets the faults come.
func (w *faults) beginFaults() {
	w.drawMix()
	w.nextFault()
}

// dice draws one of the numbers.
func (w *world) dice(of ...int) int { return of[w.random.IntN(len(of))] }

func (w *faults) nextFault() {
	w.after(w.between(0, 2*w.every), func() {
		if !w.over {
			w.mix.draw(w.world).do(w.world, w.victim())
			w.nextFault()
		}
	})
}

// kind of fault.
type kind struct {
	name   string
	weight int // how often it comes in an even mix
	do     func(w *world, n *node)
}

var kinds = []kind{
	{"kill", 4, func(_ *world, n *node) {
		if n.up {
			n.die(false)
		}
	}},
	{"power cut", 2, func(_ *world, n *node) {
		if n.up {
			n.die(true)
		}
	}},
	{"end at a write", 3, func(w *world, n *node) { n.doom = doom(w.dice(int(beforeSync), int(afterSync), int(wordSent))) }},
	{"power cut of all", 1, func(w *world, _ *node) {
		for _, n := range w.nodes {
			if n.up {
				n.die(true)
			}
		}
	}},
	{"power cut in the middle of something", 2, func(w *world, n *node) {
		n.disk.StopAt(1 + w.random.IntN(12))
		w.counts.DiskFaults++
	}},
	{"failed operation", 2, func(w *world, n *node) {
		op := []faultdisk.Op{faultdisk.Write, faultdisk.Datasync, faultdisk.Create, faultdisk.Rename, faultdisk.SyncDir, faultdisk.Remove}[w.random.IntN(6)]
		err := []error{syscall.EIO, syscall.ENOSPC}[w.random.IntN(2)]
		n.disk.FailNth(op, 1+w.random.IntN(20), err)
		w.counts.DiskFaults++
	}},
	{"failed read", 1, func(w *world, n *node) {
		// What cannot be read is damage.
		if w.faults.mayHarm(n) {
			n.disk.FailNth(faultdisk.Read, 1+w.random.IntN(20), syscall.EIO)
			n.hurt(failedRead, n.dir(n.replicaID))
			w.counts.DiskFaults++
		}
	}},
	{"pause", 2, func(w *world, n *node) {
		n.paused = w.now + w.between(50*millisecond, 3*second)
		w.counts.Pauses++
	}},
	{"clock jump", 2, func(w *world, n *node) {
		n.wall = min(max(n.wall+w.between(-hour, hour), -2*hour), 2*hour)
		w.counts.ClockJumps++
	}},
	{"slow disk", 2, func(w *world, n *node) {
		n.slow = w.between(0, 100*millisecond)
		w.counts.SlowDisks++
	}},
	{"handover", 2, func(w *world, n *node) {
		if n.serves() {
			n.act(n.life, func() {
				if n.serves() { // a pause may have outlived the replica
					n.replica.BeginHandOver()
				}
			})
			w.counts.Handovers++
		}
	}},
	{"full disk", 2, func(w *world, n *node) {
		// Somebody else fills it, or makes room.
		if n.disk.Capacity(0); w.chance(2) {
			n.disk.Capacity(n.disk.Used() + w.between(0, 2*minFree))
			w.counts.FullDisks++
		}
	}},
	{"all disks full", 1, func(w *world, _ *node) {
		// At once, below the second threshold or only below the first, while clients continue.
		w.faults.fill(w.nodes, int64(w.dice(minFree/16, minFree/8, minFree/2)))
		w.counts.FullDisks += len(w.nodes)
		w.after(w.between(second, 5*second), func() {
			for _, n := range w.nodes {
				n.disk.Capacity(0)
			}
		})
	}},
	{"hanging disk", 2, func(w *world, n *node) {
		if n.up && !n.hangs() {
			n.hung = forever
			if w.chance(2) {
				n.hung = w.now + w.between(10*second, 15*second)
			}
			w.counts.HungDisks++
		}
	}},
	{"change of members", 4, func(w *world, _ *node) {
		if w.faults.changes {
			w.operator.operate()
		}
	}},
	{"partition", 4, func(w *world, n *node) { w.faults.partition(n) }},
	{"move of an idle log", 1, func(w *world, _ *node) {
		if w.chance(2) {
			w.operator.moveAtRest()
		}
	}},
}

// hour is how far wall clocks jump, in ms.
const hour = 3_600_000

// forever is the time at which a disk resumes that hangs until its process restarts.
const forever = math.MaxInt64

// hangs: no sync ends on this disk.
func (n *node) hangs() bool { return n.hung > n.world.now }

// fill leaves so many bytes free on the disks of nodes.
func (w *faults) fill(nodes []*node, free int64) {
	for _, n := range nodes {
		n.disk.Capacity(n.disk.Used() + free)
	}
}

// victim is half the time who leads, as far as it knows: that is where a fault
// does most.
func (w *faults) victim() *node {
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
func (w *faults) partition(n *node) {
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
func (w *faults) cut(cut []way) {
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
// just written has been reported to others, and when a vote has been given. Then the
// power goes, and who was voted for may be cut off.
func (n *writer) ambush(before, after segment.HardState) {
	w, life := n.world, n.life
	voted := w.faults.ambush > 0 && !w.faults.over && after.Term > before.Term && after.Vote != 0 && after.Vote != n.replicaID && w.chance(w.faults.ambush)
	if voted {
		w.after(w.between(millisecond, 4*millisecond), func() { n.isolate(after.Vote) })
	}
	if voted || n.doom == wordSent {
		n.doom = none
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
		n.world.faults.isolate(n.world.nodes[node-1])
	}
}

// isolate cuts a node off from all others for a while.
func (w *faults) isolate(n *node) {
	var cut []way
	for _, other := range w.nodes {
		if other != n {
			cut = append(cut, way{n.id, other.id}, way{other.id, n.id})
		}
	}
	w.cut(cut)
}

// heal ends all faults. Processes that are down come back by themselves. Half of
// the worlds restart all processes; in the others nothing helps a process whose
// state went wrong in memory.
func (w *faults) heal() {
	w.over = true
	clear(w.network.cut)
	w.network.loss, w.network.repeat, w.network.late = 0, 0, 0
	again := w.chance(2)
	for _, n := range w.nodes {
		n.paused, n.slow, n.doom = 0, 0, none
		n.disk.Capacity(0)
		switch {
		case !n.up:
			n.disk.Restart()
		case again, n.disk.Stopped(), n.hung == forever:
			n.die(false)
		default:
			n.disk.Disarm()
		}
	}
}
