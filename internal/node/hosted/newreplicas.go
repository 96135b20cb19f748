package hosted

import "sync"

// NewReplicas are replicas of one log that are newer than the catalog as known
// here, with the node that the first message of each came from. Until the
// catalog is known they are that node's.
type NewReplicas struct {
	mu     sync.Mutex
	nodeOf map[uint64]uint64
}

// MaxNewReplicas bounds what others can make this node remember of a log.
const MaxNewReplicas = 64

// Learn reports whether a replica is on a node, which it is if it was heard of
// first from there. Those below known are in the catalog by now.
func (r *NewReplicas) Learn(replica, node, known uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, heard := r.nodeOf[replica]; heard {
		return at == node
	}
	for id := range r.nodeOf {
		if id < known {
			delete(r.nodeOf, id)
		}
	}
	if len(r.nodeOf) >= MaxNewReplicas {
		return false
	}
	if r.nodeOf == nil {
		r.nodeOf = map[uint64]uint64{}
	}
	r.nodeOf[replica] = node
	return true
}

// Node is that of a replica, or 0.
func (r *NewReplicas) Node(replica uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodeOf[replica]
}
