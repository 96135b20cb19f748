package sim

import (
	"context"
	"errors"

	"strandline.dev/internal/replica"
	"strandline.dev/internal/segment"
)

// mending is a damaged replica that is made whole again with what others have,
// as the node does it: it asks them for the entries that cannot be read here,
// and opens the log when nothing is missing any more.
type mending struct {
	node   *node
	life   int
	mender *segment.Mender
	begins map[uint64]beginning // by node: where its log begins
}

// beginning is the first entry of a log, and the term of the one before.
type beginning struct{ index, term uint64 }

// mendBytes are given in one answer at most: little, so that there are many.
const mendBytes = 8 << 10

// mend begins to mend the replica here. If that cannot be done, it is left to
// be renewed.
func (n *node) mend() {
	n.mending = nil
	if errors.Is(n.distrusted, errForgot) || errors.Is(n.distrusted, replica.ErrForgot) {
		return
	}
	mender, err := segment.OpenMender(context.Background(), n.disk, n.dir(n.replicaID), n.segmentOptions())
	switch {
	case err == nil && errors.Is(n.distrusted, replica.ErrShort) && len(mender.Wants(1)) == 0:
		// The files do not tell that there were more.
	case err == nil:
		n.mending = &mending{node: n, life: n.life, mender: mender, begins: map[uint64]beginning{}}
	case !errors.Is(err, segment.ErrForgotten) && !damaged(err):
		n.die(n.disk.Stopped())
	}
}

// ask asks others for what is missing, or ends when nothing is.
func (m *mending) ask() {
	n, w := m.node, m.node.world
	wants := m.mender.Wants(4)
	if len(wants) == 0 {
		m.finish()
		return
	}
	if m.skip(wants[0].First) {
		return
	}
	for _, want := range wants {
		last := want.Last
		if !want.Exact {
			last++ // an entry that is whole here proves those before it
		}
		other := w.nodes[w.random.IntN(len(w.nodes))]
		if r, here := n.placed().On(other.id); here && other != n {
			w.question(n, other, func(reply func(func())) {
				if other.replicaID == r.ID {
					other.give(m, want.First, last+1, reply)
				}
			})
		}
	}
}

// finish puts the log together and opens it.
func (m *mending) finish() {
	n, id := m.node, m.node.replicaID
	if _, err := m.mender.Finish(); err != nil {
		n.die(n.disk.Stopped())
		return
	}
	n.world.counts.Mended++
	n.world.trace("node %d: replica %d is mended", n.id, id)
	n.host(id, false)
	if n.serves() {
		n.harm = harm{}
	}
}

// skip gives up what all others have trimmed.
func (m *mending) skip(first uint64) (skipped bool) {
	n := m.node
	var lowest beginning
	p := n.placed()
	for _, r := range append(p.Replicas[:len(p.Replicas):len(p.Replicas)], p.Leaving...) {
		b, heard := m.begins[r.Node]
		switch {
		case r.Node == n.id || r.Lost:
			continue
		case !heard || b.index <= first:
			return false
		}
		if lowest.index == 0 || b.index < lowest.index {
			lowest = b
		}
	}
	if lowest.index == 0 {
		return false
	}
	if !m.mender.Skip(lowest.index, lowest.term) {
		n.mending = nil // it is renewed
		_ = m.mender.Close()
	}
	return true
}

// give answers with entries [lo, hi), as many as there are and fit, whether the
// replica here runs or is mended itself.
func (n *node) give(to *mending, lo, hi uint64, reply func(func())) {
	var frames []segment.Frame
	var settled uint64
	var begins beginning
	var err error
	switch {
	case n.mending != nil:
		frames, settled, err = n.mending.mender.Entries(lo, hi, mendBytes)
	case n.replica != nil:
		settled = n.replica.Certain()
		if first := n.log.FirstIndex(); !n.replica.Status().Short {
			if term, err := n.log.Term(first - 1); err == nil {
				begins = beginning{first, term}
			}
		}
		if frames, err = n.log.Entries(lo, min(hi, n.log.LastIndex()+1), mendBytes); damaged(err) {
			n.distrust(err)
		}
	default:
		return
	}
	if err != nil {
		frames = nil
	}
	reply(func() { to.take(n.id, frames, settled, begins) })
}

// take takes an answer.
func (m *mending) take(from uint64, frames []segment.Frame, settled uint64, begins beginning) {
	n := m.node
	if n.mending != m {
		return
	}
	if begins.index > 0 {
		m.begins[from] = begins
	}
	if len(frames) == 0 {
		return
	}
	_, err := m.mender.Give(frames, settled)
	switch {
	case errors.Is(err, segment.ErrForgotten):
		_ = m.mender.Close()
		n.mending = nil
	case err != nil:
		n.die(n.disk.Stopped())
	}
}
