package cluster

// Sender classifies the node that sent a message of a replica.
type Sender int

const (
	// Forged means that the replica is on another node, or was removed. The message must be ignored:
	// it could be a vote, or an acknowledgement.
	Forged Sender = iota
	// Placed means that the replica is on that node.
	Placed
	// Newer means that the catalog as known here does not contain the replica yet. For a node that
	// was away, this sender may be the only source of news.
	Newer
)

// SenderOf classifies the sender of a message of a replica, which came from the node from. next
// is the first replica id that the catalog, as known here, has not assigned: lower ids that are
// not placed were removed.
func (p *Placement) SenderOf(replica, from, next uint64) Sender {
	switch at := p.NodeOf(replica); {
	case at != 0 && at == from:
		return Placed
	case at == 0 && replica >= next:
		return Newer
	}
	return Forged
}
