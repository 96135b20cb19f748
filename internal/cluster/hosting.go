package cluster

// Step is what a node has to do about a log.
type Step int

const (
	// Keep: nothing.
	Keep Step = iota
	// Drop the replica that runs here, with its files.
	Drop
	// Open the files that were made here. If they are not there, they are lost.
	Open
	// Make the files of a replica that begins, and open them.
	Make
	// Wait until the newest placement is known.
	Wait
)

// Due says what a node has to do next about a log of which it runs the replica
// hosted (0: none), and with which replica.
//
// Made are the replicas that were made on this node and not dropped. Current
// tells that this process has seen the newest placement at some time: what a
// node has acted on is not always what it knows after a crash. A placement that
// is older than that may name a replica which was dropped here, and to make it
// again from nothing would give it back its vote, without its memory.
func (p *Placement) Due(node, hosted uint64, made func(replica uint64) bool, current bool) (Step, Replica) {
	r, here := p.On(node)
	switch {
	case hosted != 0 && (!here || r.ID != hosted):
		return Drop, r
	case hosted != 0 || !here:
		return Keep, r
	case made(r.ID):
		return Open, r
	case current:
		return Make, r
	}
	return Wait, r
}
