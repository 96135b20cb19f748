package node

import (
	"context"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
)

// StoredBy returns how far other nodes have stored a log that this node leads, by
// node: those that have answered lately and take records as they come. It is empty
// where this node does not lead.
func (n *Node) StoredBy(ctx context.Context, caller Caller, log string) (map[uint64]record.Offset, error) {
	h, refusal := n.serving(caller, log)
	if refusal != nil {
		return nil, refusal
	}
	peers := make(chan []core.Peer, 1)
	if r := h.replica.Peers(func(known []core.Peer) { peers <- known }); r != nil {
		return nil, r
	}
	ends := map[uint64]record.Offset{}
	select {
	case known := <-peers:
		for _, p := range known {
			if node := n.nodeOf(h, p.Replica); node != n.me.Load().NodeID && p.Active && p.State == "StateReplicate" {
				ends[node] = p.End
			}
		}
		return ends, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
