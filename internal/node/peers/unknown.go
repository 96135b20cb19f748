package peers

import (
	"cmp"
	"slices"
	"sync"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/transport/peer"
)

// Unknown are nodes of this cluster that are newer than the catalog as known
// here. A node that was away for long may have no other way to hear what
// happened than from them.
type Unknown struct {
	mu   sync.Mutex
	byID map[uint64]peer.Node
	// Met is signalled when there is a new one.
	Met chan struct{}
}

// NewUnknown returns a list without nodes.
func NewUnknown() *Unknown {
	return &Unknown{byID: map[uint64]peer.Node{}, Met: make(chan struct{}, 1)}
}

// maxUnknownPeers bounds what others can make this node remember.
const maxUnknownPeers = 64

func (s *Unknown) meet(node peer.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.byID[node.ID]; known || len(s.byID) >= maxUnknownPeers {
		return
	}
	s.byID[node.ID] = node
	select {
	case s.Met <- struct{}{}:
	default:
	}
}

// unknown are those that the catalog does not have, by id. Others are
// forgotten.
func (s *Unknown) unknown(state *cluster.State) []peer.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	var nodes []peer.Node
	for id, node := range s.byID {
		if id < state.NextNode {
			delete(s.byID, id)
			continue
		}
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b peer.Node) int { return cmp.Compare(a.ID, b.ID) })
	return nodes
}
