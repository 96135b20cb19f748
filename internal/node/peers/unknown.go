package peers

import (
	"cmp"
	"slices"
	"sync"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/transport/peer"
)

// Unknown are nodes of this cluster that this node's catalog does not have yet. After a long
// absence a node may be able to get the newest catalog only from them.
type Unknown struct {
	mu   sync.Mutex
	byID map[uint64]peer.Node
	// Met is signalled when a new node is added.
	Met chan struct{}
}

// NewUnknown returns an empty list.
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
