package peer

import (
	"cmp"
	"slices"
)

// NodeStats holds the counts of the connections with one node since it was first in SetNodes.
// Bytes include the headers of frames.
type NodeStats struct {
	Node     Node
	Up       bool
	Queued   int64 // bytes that wait to be sent
	Sent     uint64
	Received uint64
	Dropped  uint64 // messages for which Send returned false
}

// Stats returns the counts of all nodes, ordered by id.
func (m *Mesh) Stats() []NodeStats {
	var all []NodeStats
	for _, l := range *m.links.Load() {
		s := NodeStats{
			Node: *l.node.Load(), Sent: l.traffic.sent.Load(),
			Received: l.traffic.received.Load(), Dropped: l.traffic.dropped.Load(),
		}
		if c := l.current.Load(); c != nil {
			s.Up, s.Queued = true, c.queue.bytes()
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b NodeStats) int { return cmp.Compare(a.Node.ID, b.Node.ID) })
	return all
}
