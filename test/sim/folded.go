package sim

import "strandline.dev/internal/record"

// folded is what a replica made of the entries up to an index.
type folded struct {
	sum  uint32
	node uint64
}

// compareFolded compares the table of the replica here with those that others had at
// the same index: one that differs breaks no rule until its replica leads, or never.
func (n *node) compareFolded() {
	if n.folded == n.replica.Applied() {
		return
	}
	w := n.world
	index, table := n.replica.Folded()
	n.folded = index
	// Not of all of it: the table ends in its checksum, and with that all have one.
	mine := folded{record.Checksum(table[:len(table)-4]), n.id}
	other, known := w.folded[index]
	switch {
	case !known:
		w.folded[index] = mine
	case other.sum != mine.sum:
		w.fail("nodes %d and %d have folded the entries up to %d into different tables", other.node, n.id, index)
	default:
		w.counts.Compared++
	}
}
