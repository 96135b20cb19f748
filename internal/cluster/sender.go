package cluster

// Sender is what is known of the node that sent a message of a replica.
type Sender int

const (
	// Forged: the replica is another node's, or was removed. The message must not
	// be believed: it could be a vote, or an acknowledgement.
	Forged Sender = iota
	// Placed: the replica is on that node.
	Placed
	// Newer: the catalog as known here does not contain the replica yet. To a node
	// that was away, this sender may be the only one that reports what happened.
	Newer
)

// SenderOf judges a message of a replica of a log that came from a node. Next is
// the first replica id that the catalog, as known here, has not given: what is
// below and not placed was removed.
func (p *Placement) SenderOf(replica, from, next uint64) Sender {
	switch at := p.NodeOf(replica); {
	case at != 0 && at == from:
		return Placed
	case at == 0 && replica >= next:
		return Newer
	}
	return Forged
}
