package sim

// minFree is what must stay free on a disk for appends to be taken: room for all
// that goes on without them.
const minFree = 16 * segmentBytes

// full tells whether the disk has no room for more records.
func (n *node) full() bool {
	free, _, err := n.disk.Free(".")
	return err == nil && free < minFree
}

// watchSpace tells the replica whether to take more records. A leader stops when
// its own disk is full, or those of so many others that no majority has room.
func (n *node) watchSpace() {
	full := n.full()
	if s := n.replica.Status(); !full && s.Leading {
		without := 0
		for _, voter := range s.Voters {
			if node := n.nodeOf(voter); node != 0 && n.world.nodes[node-1].full() {
				without++
			}
		}
		full = 2*(len(s.Voters)-without) <= len(s.Voters)
	}
	n.replica.SetFull(full)
}
