package sim

import (
	"slices"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment/format"
	"strandline.dev/test/disk/faultdisk"
)

// What Options.Torn adds: power that goes between two frames of a group, rather around a change
// of the configuration; leaders that are cut off, and worlds that fall in two, while the log
// moves; and worlds that end without an append. A disk that tears by sectors never shows the
// first: a change and the hard state behind it lie in one.

// tear writes back what the replica here has written and not synced, up to the end of one of
// its frames. It reports false where nothing is unsynced.
func (n *writer) tear() bool {
	name := newest(n.files(), "")
	from, unsynced := n.disk.Unsynced(name)
	if !unsynced {
		return false
	}
	ends, changes := framesFrom(n.disk.Content(name), from)
	if len(ends) == 1 {
		return false // zeros that were written ahead
	}
	if len(changes) > 0 && !n.world.chance(4) {
		ends = changes
	}
	end := ends[n.world.random.IntN(len(ends))]
	n.disk.WriteBack(name, end)
	n.world.counts.Torn++
	if slices.Contains(changes, end) {
		n.world.counts.TornMoves++
	}
	return true
}

// normal is Raft's type of entries that are no change of the configuration.
const normal = 0

// framesFrom returns where the frames of a segment end that begin at a position or behind it,
// and that position; and of those that hold a change of the configuration.
func framesFrom(content []byte, from int64) (ends, changes []int64) {
	ends = []int64{from}
	h, err := format.ParseHeader(content)
	if err != nil {
		return ends, nil
	}
	for at := int64(format.HeaderSize); at < int64(len(content)); {
		f, err := format.ParseFrameHeader(content[at:], at, h.Salt)
		if err != nil || at+f.Size() > int64(len(content)) {
			break
		}
		begin := at
		if at += f.Size(); begin < from {
			continue
		}
		ends = append(ends, at)
		if f.Kind == format.EntryFrame && f.Entry(nil).Type != normal {
			changes = append(changes, at)
		}
	}
	return ends, changes
}

// tearChange lets the power go while a change of the configuration is written, and is not
// durable.
func (n *writer) tearChange(within int64) {
	w, life := n.world, n.life
	if !w.torn || w.faults.over {
		return
	}
	name := newest(n.files(), "")
	from, unsynced := n.disk.Unsynced(name)
	if !unsynced {
		return
	}
	if _, changes := framesFrom(n.disk.Content(name), from); len(changes) == 0 || !w.chance(3) {
		return
	}
	w.after(w.between(0, within), func() {
		if n.life != life || n.writing == nil || !n.tear() {
			return
		}
		n.end(true, faultdisk.Nothing)
		if !w.chance(3) {
			w.faults.separateLeaving(n.node)
		}
	})
}

// disturbMoves cuts somebody off now and then while the log is not where it should be, and has
// an operator move it often.
func (w *faults) disturbMoves() {
	w.after(w.between(10*millisecond, 300*millisecond), func() {
		if w.over {
			return
		}
		leader := w.leading()
		switch {
		case w.catalog.newest().log.Settled():
			if w.chance(4) {
				w.operator.operate()
			}
		case leader == nil || !w.chance(4):
		default:
			[]func(*node){w.isolate, w.fallInTwo, w.handOverInVain}[w.random.IntN(3)](leader)
		}
		w.disturbMoves()
	})
}

// leading is a node that leads as far as it knows, or nil.
func (w *world) leading() *node {
	for _, n := range w.nodes {
		if n.serves() && n.replica.Status().Leading {
			return n
		}
	}
	return nil
}

// fallInTwo cuts all links between some nodes and the others, for a while.
func (w *faults) fallInTwo(*node) {
	side := w.random.Uint64()
	w.separate(func(n *node) bool { return side>>n.id&1 == 1 })
}

// separateLeaving cuts a node and those whose replicas leave the log off from the others: where
// anybody has the configuration from before, these are a majority of it.
func (w *faults) separateLeaving(with *node) {
	p := &w.catalog.newest().log.Placement
	w.separate(func(n *node) bool {
		return n == with || slices.ContainsFunc(p.Leaving, func(r cluster.Replica) bool { return r.Node == n.id })
	})
}

// separate cuts all links between those on a side and the others.
func (w *faults) separate(side func(*node) bool) {
	var cut []way
	for _, a := range w.nodes {
		for _, b := range w.nodes {
			if side(a) != side(b) {
				cut = append(cut, way{a.id, b.id})
			}
		}
	}
	w.counts.Partitions++
	w.cut(cut)
}

// handOverInVain lets a leader hand over to a process that stands still for longer than it waits.
func (w *faults) handOverInVain(leader *node) {
	heir := w.nodes[w.random.IntN(len(w.nodes))]
	if heir == leader || !heir.serves() {
		return
	}
	heir.paused = w.now + 2*second
	leader.act(leader.life, func() {
		if leader.serves() {
			leader.replica.Do(func(c *core.Core) { c.Handover.HandOver(heir.replicaID) })
			w.counts.Handovers++
		}
	})
}

// silence lets no client begin anything in the last seconds of faults, in half of the worlds, so
// that the log has to heal without an append.
func (w *world) silence() {
	if w.chance(2) {
		return
	}
	w.quietEnd = true
	w.after(max(w.time-4*second, 0), func() { w.quiet = true })
}

// settleSilently waits until a healed log is where it should be, without an append.
func (w ending) settleSilently() {
	holders := w.holders()
	for _, n := range holders {
		if w.problem == nil && len(n.replica.Status().Outgoing) > 0 {
			w.within(settleTime, "a replica is in a joint configuration", func() bool {
				return n.serves() && len(n.replica.Status().Outgoing) == 0
			})
		}
	}
	if w.limits != nil {
		for deadline := w.now + settleTime; w.problem == nil && !w.scrubAll(holders); holders = w.holders() {
			if w.run(w.now + second); w.now > deadline {
				w.fail("healed for %s, and replicas are not whole", time.Duration(settleTime)*time.Microsecond)
			}
		}
	}
	w.counts.Silent++
}
