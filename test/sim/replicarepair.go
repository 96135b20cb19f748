package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
)

// replicaRepair is a damaged replica that is made whole again with what others have,
// as the node does it: it asks them for the entries that cannot be read here,
// and opens the log when nothing is missing any more.
type replicaRepair struct {
	node     *node
	life     int
	repairer *repair.Repairer
	begins   map[uint64]cluster.Beginning // by node: where its log begins
	lacks    map[uint64]uint64            // by node: the entry that it said last it lacks
}

// repairBytes are given in one answer at most: little, so that there are many.
const repairBytes = 8 << 10

// startRepair begins to repair the replica here. If that cannot be done, it is lost.
func (n *hosting) startRepair() {
	repairer, err := repair.Begin(context.Background(), n.disk, n.dir(n.replicaID), n.segmentOptions(n.replicaID))
	switch {
	case err == nil && len(repairer.Wants(1)) == 0 && (errors.Is(n.distrusted, core.ErrStartMissing) || errors.Is(n.distrusted, core.ErrSpliced)):
		_ = repairer.Close()
		n.judge(fmt.Errorf("%w: %w", errLost, n.distrusted)) // the files do not show what is wrong with them
	case err == nil:
		n.replicaRepair = &replicaRepair{node: n.node, life: n.life, repairer: repairer, begins: map[uint64]cluster.Beginning{}, lacks: map[uint64]uint64{}}
	case errors.Is(err, repair.ErrNotRepairable), errors.Is(err, segment.ErrNoLog):
		n.judge(fmt.Errorf("%w: %w", errLost, err))
	default:
		n.die(n.disk.Stopped()) // and tries again
	}
}

// ask asks others for what is missing, or ends when nothing is.
func (m *replicaRepair) ask() {
	w := m.node.world
	wants := m.repairer.Wants(4)
	if len(wants) == 0 {
		m.finish()
		return
	}
	if m.skip(wants[0].First) {
		return
	}
	for _, want := range wants {
		m.question(w.nodes[w.random.IntN(len(w.nodes))], want.First, want.To)
	}
}

// question asks another node for the entries [from, to].
func (m *replicaRepair) question(other *node, from, to uint64) {
	n := m.node
	if r, here := n.placed().On(other.id); here && other != n {
		n.world.network.question(n, other, func(reply func(func())) {
			if other.replicaID == r.ID {
				other.give(m, from, to, reply)
			}
		})
	}
}

// finish puts the log together and opens it.
func (m *replicaRepair) finish() {
	n, id, why := m.node, m.node.replicaID, m.node.distrusted
	if _, err := m.repairer.Finish(); err != nil {
		n.die(n.disk.Stopped())
		return
	}
	n.world.counts.Rebuilt++
	n.world.trace("node %d: replica %d is repaired", n.id, id)
	n.host(id, false)
	// What is missing of a log without showing in its files is found once more.
	if n.serves() && !errors.Is(why, core.ErrStartMissing) && !errors.Is(why, core.ErrSpliced) {
		n.harm = harm{}
	}
}

// skip gives up what all others have trimmed.
func (m *replicaRepair) skip(first uint64) (skipped bool) {
	n := m.node
	lowest, trimmed := m.trimmed(first)
	if !trimmed {
		return false
	}
	if !m.repairer.Skip(lowest.Index, lowest.Term) {
		_ = m.repairer.Close()
		n.judge(fmt.Errorf("%w: nothing is known of the state behind what all others have trimmed", errLost))
		return true
	}
	n.baseless = n.replicaID
	return true
}

// trimmed returns where the logs of others begin, if none has first any more.
func (m *replicaRepair) trimmed(first uint64) (cluster.Beginning, bool) {
	n, p := m.node, m.node.placed()
	var others []cluster.Holder
	for _, r := range slices.Concat(p.Replicas, p.Leaving) {
		if r.Node != n.id && !r.Lost {
			others = append(others, cluster.Holder{Begins: m.begins[r.Node], Lacks: m.lacks[r.Node] == first})
		}
	}
	return cluster.TrimmedBy(first, others)
}

// give answers with entries [first, last], as many as there are and fit, whether
// the replica here runs or is repaired itself.
func (n *hosting) give(to *replicaRepair, first, last uint64, reply func(func())) {
	var frames []segment.Entry
	var settled uint64
	var begins cluster.Beginning
	var lacks bool
	var err error
	switch {
	case n.replicaRepair != nil:
		frames, settled, err = n.replicaRepair.repairer.Entries(first, last+1, repairBytes)
		lacks = n.replicaRepair.repairer.Lacks(first)
	case n.replica != nil:
		settled = n.replica.Certain()
		if index := n.log.FirstIndex(); !n.replica.Status().Short {
			if term, err := n.log.Term(index - 1); err == nil {
				begins = cluster.Beginning{Index: index, Term: term}
			}
		}
		lo, hi := max(first, n.log.FirstIndex()), min(last, n.log.LastIndex())+1
		lacks = first >= hi
		if frames, err = n.log.Entries(lo, hi, repairBytes); damaged(err) {
			var corrupt *segment.CorruptError
			lacks = errors.As(err, &corrupt) && corrupt.FirstIndex <= first
			n.distrust(err)
		}
	default:
		return
	}
	if err != nil {
		frames = nil
	}
	reply(func() {
		if lacks {
			to.lacks[n.id] = first
		}
		to.take(n.node, frames, settled, begins, last)
	})
}

// take takes an answer to a question for entries up to last. What is at the end
// of them may prove the rest, so it continues to ask until something is taken.
func (m *replicaRepair) take(from *node, frames []segment.Entry, settled uint64, begins cluster.Beginning, last uint64) {
	n := m.node
	live := n.repairing != nil && &n.repairing.replicaRepair == m
	if n.replicaRepair != m && !live {
		return
	}
	if begins.Index > 0 {
		m.begins[from.id] = begins
	}
	taken, err := m.repairer.Give(frames, settled)
	switch {
	case err == nil && taken == 0 && len(frames) > 0 && frames[len(frames)-1].Index < last:
		m.question(from, frames[len(frames)-1].Index+1, last)
	case errors.Is(err, repair.ErrNotRepairable) && live:
		n.takeOut(n.repairing.cause)
	case errors.Is(err, repair.ErrNotRepairable):
		_ = m.repairer.Close()
		n.judge(fmt.Errorf("%w: %w", errLost, err))
	case err != nil:
		n.die(n.disk.Stopped())
	}
}
