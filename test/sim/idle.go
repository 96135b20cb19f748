package sim

import (
	"strandline.dev/internal/cluster"
	"strandline.dev/test/disk/faultdisk"
)

// rest lets the clients pause now and then, until the faults are over.
func (w *world) rest() {
	w.after(w.between(second/2, 3*second), func() {
		switch {
		case w.faults.over:
		case w.resting:
			w.rest()
		default:
			w.resting = true
			w.after(w.between(second/5, 3*second), func() {
				w.resting = false
				w.rest()
			})
		}
	})
}

// moveAtRest lets the clients pause, moves all replicas for which there is another
// node, and cuts all power right after the log has released the old ones. What an
// idle log does not write again it has to have made durable by then.
func (w *operator) moveAtRest() {
	if w.resting {
		return
	}
	w.resting = true
	w.after(w.between(second/2, 2*second), func() {
		w.moveAll()
		w.awaitMove(w.now + 20*second)
	})
}

// moveAll moves each replica to a node of its own that has none, as far as there
// are such nodes.
func (w *operator) moveAll() {
	w.catalog.place(func(l *cluster.Log, next uint64) bool {
		free, moved := w.free(&l.Placement), false
		for _, r := range l.Replicas {
			if len(free) > 0 && l.Move(r.Node, free[0].id, next) {
				next++
				w.counts.Moved++
				free, moved = free[1:], true
			}
		}
		return moved
	})
}

// awaitMove waits until the log is where it should be, and cuts all power then.
func (w *operator) awaitMove(deadline int64) {
	switch {
	case w.faults.over, w.now > deadline:
		w.resting = false
	case !w.moved():
		w.after(20*millisecond, func() { w.awaitMove(deadline) })
	default:
		w.after(w.between(0, second/2), func() {
			w.resting = false
			if w.faults.over {
				return
			}
			w.counts.IdleMoves++
			remains := faultdisk.Remains(w.dice(int(faultdisk.Nothing), int(faultdisk.Nothing), int(faultdisk.Some)))
			for _, n := range w.nodes {
				if n.up {
					n.end(true, remains)
				}
			}
		})
	}
}

// moved reports whether the log is where it should be, and nowhere else.
func (w *operator) moved() bool {
	p := &w.catalog.newest().log
	for _, n := range w.nodes {
		if r, here := p.On(n.id); n.replicaID != 0 && (!here || r.ID != n.replicaID) {
			return false
		}
	}
	return p.Settled()
}
