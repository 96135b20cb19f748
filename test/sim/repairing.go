package sim

import (
	"errors"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
)

// repairing is a damaged full segment of a replica that runs, which is rewritten
// with what others have, as the node does it.
type repairing struct {
	replicaRepair
	file  string
	cause error
	tries int // to begin
}

// repairTries to begin lie 200 ms apart or more: for as long the entries of a
// segment may be not known as committed.
const repairTries = 10

// repairRunning begins to repair a segment while the replica runs.
func (n *hosting) repairRunning(why error) {
	file, _ := store.DamagedSegment(why)
	if n.repairing == nil { // else it is found again
		n.repairing = &repairing{replicaRepair: replicaRepair{node: n.node, life: n.life, begins: map[uint64]cluster.Beginning{}, lacks: map[uint64]uint64{}}, file: file, cause: why}
		n.world.trace("node %d: replica %d continues, and repairs: %v", n.id, n.replicaID, why)
	}
}

// work takes the next step. While a write is under way nothing happens: in the
// simulator it may stand anywhere.
func (r *repairing) work() {
	n := r.node
	switch {
	case n.writing != nil && n.writing.resume != nil:
	case r.repairer == nil:
		r.begin()
	case len(r.repairer.Wants(1)) == 0:
		r.finish()
	default:
		if _, trimmed := r.trimmed(r.repairer.Wants(1)[0].First); trimmed {
			n.takeOut(r.cause) // nobody has what is missing
			return
		}
		for _, want := range r.repairer.Wants(4) {
			r.question(n.world.nodes[n.world.random.IntN(len(n.world.nodes))], want.First, want.To)
		}
	}
}

func (r *repairing) begin() {
	n := r.node
	repairer, err := repair.BeginOnline(n.log.(*store.Store), r.file, n.replica.Certain(), 0)
	switch {
	case err == nil:
		r.repairer = repairer
	case errors.Is(err, segment.ErrTrimmed):
		n.repairing = nil
	case errors.Is(err, segment.ErrNotCommitted) && r.tries < repairTries:
		r.tries++
	case n.disk.Stopped():
		n.die(true)
	default:
		n.takeOut(r.cause)
	}
}

func (r *repairing) finish() {
	n := r.node
	if _, err := r.repairer.Finish(); err != nil {
		n.die(n.disk.Stopped())
		return
	}
	n.repairing = nil
	n.world.counts.Repaired++
	n.world.trace("node %d: %s is repaired", n.id, r.file)
	var left error
	err := n.log.(*store.Store).Scrub(nil, func(err error) { left = err })
	switch {
	case err != nil && n.disk.Stopped():
		n.die(true)
	case errors.Is(left, segment.ErrNoSnapshot):
		n.replica.RenewSnapshot()
	case left != nil:
		n.distrust(left)
	case err == nil && !n.blind && n.harm.kind != failedRead:
		// A read that began before may have found the damage once more.
		n.harm, n.found = harm{}, nil
	}
}
