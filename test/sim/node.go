package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"

	"strandline.dev/internal/replica/core"
	"strandline.dev/test/disk/faultdisk"
)

// node is a process that hosts a replica of the log, or none, and the disk that
// outlives it.
type node struct {
	*media
	*hosting
	*member
	*writer

	world *world
	id    uint64

	disk  *faultdisk.Disk
	salts io.Reader       // continues after a restart, as salts must not come again
	made  map[uint64]bool // replicas that were made on this disk and not dropped

	gone   bool // for good
	cuts   int  // of its power
	life   int  // of the process; whatever was to happen in an earlier one does not
	up     bool
	begun  int64 // us: when the process began
	pulse  core.Pulse
	wall   int64 // ms by which its wall clock is wrong
	paused int64 // us: nothing happens here before
	slow   int64 // us that the disk takes longer
	hung   int64 // us: no sync of a segment ends before

	gathering bool   // inputs gather for a round that is due
	inputs    int    // since the newest round
	folded    uint64 // index of the newest state that was compared
	feeding   bool
	hashing   bool
	keeping   bool
}

// epochMillis is the wall clock when a world begins.
const epochMillis = 1_700_000_000_000

func newNode(w *world, id uint64) *node {
	var key [32]byte
	for i := range key {
		key[i] = byte(w.random.Uint32())
	}
	n := &node{world: w, id: id, disk: faultdisk.New(w.random.Uint64()), salts: rand.NewChaCha8(key), made: map[uint64]bool{}}
	n.media, n.hosting, n.member, n.writer = &media{node: n, earlier: map[uint64]bool{}}, &hosting{node: n}, &member{node: n}, &writer{node: n}
	return n
}

// start begins the process. What it knows of the catalog may be less than what
// it had acted on, since that a change is committed need not be durable.
func (n *node) start() {
	w := n.world
	n.life++
	n.up, n.current, n.begun, n.pulse = true, false, w.now, core.Pulse{}
	n.slow, n.hung = 0, 0
	n.known = max(0, n.known-max(0, w.random.IntN(4)-1))
	n.forget()
	if n.refuses(n.levels) {
		n.stop()
		return
	}
	life := n.life
	n.rehost()
	if n.life == life {
		n.tick(life)
	}
}

// forget what is known of the replica here.
func (n *node) forget() {
	n.replicaID, n.replica, n.log, n.found, n.distrusted, n.replicaRepair = 0, nil, nil, nil, nil, nil
	n.repairing, n.lost = nil, false
	n.abandonWrite()
	n.feeding, n.hashing, n.keeping, n.newer, n.shaped = false, false, false, map[uint64]uint64{}, -1
	n.gathering, n.inputs, n.folded = false, 0, 0
}

// serves: there is a replica here that works.
func (n *node) serves() bool { return n.up && n.replica != nil }

// act does something in a life of the process, and lets the replica work it off:
// at once, or with whatever else comes until its loop gets to it.
func (n *node) act(life int, do func()) {
	if n.life != life || !n.up {
		return
	}
	if n.paused > n.world.now {
		n.world.after(n.paused-n.world.now, func() { n.act(life, do) })
		return
	}
	do()
	if n.life != life || n.replica == nil {
		return // it died of it, or hosts no replica
	}
	n.inputs++
	w := n.world
	switch {
	case n.gathering:
	case w.gather > 0 && w.chance(2):
		n.gathering = true
		w.after(w.between(0, w.gather), func() { n.round(life) })
	default:
		n.round(life)
	}
}

// round lets the replica take all that has come, and looks at what it wants.
func (n *node) round(life int) {
	if n.life != life || !n.up {
		return
	}
	if n.paused > n.world.now {
		n.world.after(n.paused-n.world.now, func() { n.round(life) })
		return
	}
	if n.inputs > 1 {
		n.world.counts.Gathered++
	}
	n.gathering, n.inputs = false, 0
	if n.replica == nil {
		return
	}
	n.replica.Round(n.time())
	if n.replica == nil {
		return
	}
	if found := n.found; found != nil {
		n.found = nil
		if n.distrust(found); n.replica == nil {
			return
		}
	}
	if failed := n.replica.Status().Failed; failed != nil {
		n.suspect = true
		n.die(n.disk.Stopped() || n.world.chance(2)) // the operator restarts it
		return
	}
	if !n.outdated() {
		n.compareFolded()
	}
	if n.replica.Unwritten() && n.writing == nil {
		n.writing = &writing{}
		n.world.after(n.world.between(30, 600)+n.slow, func() { n.act(life, n.write) })
	}
	if n.replica.Unkept() && !n.keeping {
		n.keeping = true
		n.world.after(n.world.between(100, 3000)+n.slow, func() { n.act(life, func() { n.keep() }) })
	}
	if n.replica.Unhashed() && !n.hashing {
		n.hashing = true
		n.world.after(n.world.between(100, 3000)+n.slow, func() { n.act(life, n.hash) })
	}
	if n.replica.Unread() && !n.feeding {
		n.feeding = true
		n.world.after(n.world.between(100, 3000)+n.slow, func() { n.act(life, func() { n.feed() }) })
	}
}

// keep does one step of the upkeep, which may come between a write and what
// follows from it.
func (n *node) keep() {
	n.keeping = false
	if n.replica == nil || n.hangs() {
		return
	}
	n.replica.Keep()
	if n.disk.Stopped() {
		n.die(true)
	}
}

func (n *node) hash() {
	n.hashing = false
	if n.replica != nil {
		n.replica.Hash()
	}
}

func (n *node) feed() {
	n.feeding = false
	if n.replica != nil {
		n.replica.Feed()
	}
}

// tick comes every 50 ms, as the process sees it, with what it does at leisure.
func (n *node) tick(life int) {
	n.act(life, func() {
		n.pulse.Beat(n.monotonic())
		if n.world.chance(4) {
			n.look()
		}
		if n.world.chance(40) {
			n.copy() // as a backup does
		}
		n.mayRot()
		if n.life != life || n.replica == nil {
			return
		}
		n.watchSpace()
		if !n.replica.Tick(n.time()) {
			n.world.counts.Unticked++
		}
		switch {
		case n.writing != nil, n.hangs():
		case n.world.chance(8):
			if n.replica.Mark() {
				n.promise()
			}
		case n.world.chance(4):
			_, _ = n.log.Prepare()
		case n.world.chance(100):
			n.scrub()
		}
		if n.disk.Stopped() {
			n.die(true)
		}
	})
	if n.life == life {
		n.world.after(core.TickMillis*millisecond, func() { n.tick(life) })
	}
}

// die ends the process, with or without the power, and begins another later.
func (n *node) die(powerless bool) {
	n.end(powerless, faultdisk.Remains(n.world.random.IntN(3)))
}

// end is die with what a power cut leaves of what was not synced.
func (n *node) end(powerless bool, remains faultdisk.Remains) {
	w := n.world
	n.up = false
	n.life++
	w.trace("node %d: ends, without power %v", n.id, powerless)
	if n.writing != nil && n.writing.resume != nil {
		w.counts.Unsynced++
		n.noteReplaced()
		n.disk.Halt()
	}
	n.abandonWrite()
	if powerless {
		w.counts.PowerCuts++
		n.cuts++
		if w.torn && !w.memory && n.replicaID != 0 && remains == faultdisk.Some && n.tear() {
			remains = faultdisk.Nothing
		}
		n.disk.PowerCut(remains)
	} else {
		w.counts.Kills++
		n.disk.Restart()
	}
	for _, other := range w.nodes {
		// The others may notice that its connections are gone.
		if other != n && !w.network.cut[way{n.id, other.id}] && w.chance(2) {
			life := other.life
			w.after(w.network.latency(), func() {
				other.act(life, func() {
					if r, here := other.placed().On(n.id); here && other.replica != nil {
						other.replica.PeerLost(r.ID, !powerless)
					}
				})
			})
		}
	}
	w.faults.mayDamage(n)
	life := n.life
	w.after(w.between(20*millisecond, 3*second), func() {
		if n.life == life {
			n.start()
		}
	})
}

// monotonic is the time since the process began, in milliseconds.
func (n *node) monotonic() int64 { return (n.world.now - n.begun) / millisecond }

func (n *node) time() core.Now {
	now := n.monotonic()
	return core.Now{Monotonic: now, Stalled: n.pulse.Stalled(now), Unix: epochMillis + n.world.now/millisecond + n.wall}
}

// fail ends the run: something happened that no fault explains.
func (w *world) fail(format string, args ...any) {
	if w.problem == nil {
		w.problem = fmt.Errorf(format, args...)
	}
}

func (n *node) name() string { return strconv.FormatUint(n.id, 10) }
