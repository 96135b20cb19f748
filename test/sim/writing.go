package sim

import (
	"iter"
	"strings"

	"strandline.dev/internal/segment"
	"strandline.dev/test/disk/faultdisk"
)

// writing is a write of the replica on a node, from when it is due until it has
// ended. It pauses before each sync of a segment, when what was written can be read
// and is not durable. Meanwhile everything else continues: messages, reads, the end of
// the process.
type writing struct {
	resume  func() (struct{}, bool) // reports whether it pauses; nil: it has not begun
	stop    func()
	sync    func(file string) error
	before  segment.HardState
	written bool // whether it succeeded; once it has ended
}

// writer writes what the replica of a node wants written.
type writer struct {
	*node
	writing *writing // nil: no write is due or under way
	doom    doom
}

func (n *writer) beginWrite(w *writing) {
	replica := n.replica
	w.before = n.log.HardState()
	w.resume, w.stop = iter.Pull(func(yield func(struct{}) bool) {
		w.sync = func(file string) error {
			// Other files are synced under locks, for which readers would wait.
			if strings.HasSuffix(file, ".seg") && !yield(struct{}{}) {
				return faultdisk.ErrStopped
			}
			return nil
		}
		n.disk.BeforeSync(w.sync)
		w.written = replica.Write()
	})
}

// write begins the write that is due, or resumes it. If the power goes meanwhile,
// nobody learns its outcome.
func (n *writer) write() {
	w := n.writing
	switch {
	case w == nil:
		return // abandoned
	case n.replica == nil:
		n.abandonWrite()
		return
	case w.resume == nil:
		n.beginWrite(w)
	}
	n.disk.BeforeSync(w.sync)
	_, pauses := w.resume()
	n.disk.BeforeSync(nil)
	if pauses {
		n.awaitSync()
		return
	}
	n.writing = nil
	if n.disk.Stopped() {
		n.die(true)
		return
	}
	if w.written {
		n.promise()
	}
	if n.doom == afterSync {
		n.meetDoom()
		return
	}
	n.ambush(w.before, n.log.HardState())
}

// awaitSync resumes the write a little later.
func (n *writer) awaitSync() {
	w, life := n.world, n.life
	w.counts.Paused++
	took := w.between(20, 800) + n.slow
	if n.hangs() {
		took = n.hung - w.now
	}
	if n.doom == beforeSync {
		w.after(w.between(0, took), func() {
			if n.life == life && n.writing != nil {
				n.meetDoom()
			}
		})
	}
	n.tearChange(took)
	if n.hung != forever {
		w.after(took, func() { n.act(life, n.write) })
	}
}

// abandonWrite ends the write that is due or under way, as one that failed.
func (n *writer) abandonWrite() {
	w := n.writing
	if n.writing = nil; w != nil && w.resume != nil {
		w.stop()
		n.disk.BeforeSync(nil)
	}
}

// doom is what is to happen to a node at a moment that is too short for chance to
// hit it often: its process ends or its power goes.
type doom int

const (
	none       doom = iota
	beforeSync      // what the next write wrote can be seen, and is not durable
	afterSync       // it is durable, and the replica does not know it yet
	wordSent        // others may have been notified
)

// meetDoom ends the process.
func (n *writer) meetDoom() {
	n.doom = none
	n.die(n.world.chance(2))
}
