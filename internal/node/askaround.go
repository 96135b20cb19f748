package node

import (
	"context"
	"errors"
	"time"

	"strandline.dev/internal/transport/peer"
)

// askAroundEvery lies between two rounds of questions.
const askAroundEvery = time.Second

// askAround asks nodes that are not connected who they are. Of two nodes the one
// with the lower id dials. One that was away while the others changed does not
// know whom to dial: it hears of this node by the question. And one that was
// removed is dialled by nobody: it hears so by the answer.
func (n *Node) askAround(ctx context.Context) {
	for ; ctx.Err() == nil; pause(ctx, askAroundEvery) {
		me := n.me.Load().NodeID
		alone := !n.neighbours.anyUp()
		for id, node := range n.catalog.Load().shown.Load().Nodes {
			if id == me || n.neighbours.up(id) || id > me && !alone {
				continue
			}
			ask, cancel := context.WithTimeout(ctx, askAroundEvery)
			err := n.askAddress(ask, n.reach(node), askWho, struct{}{}, nil)
			cancel()
			var refused *peer.RefusedError
			if errors.As(err, &refused) && !refused.ByUs {
				n.refusedBy(peer.Node{ID: id, Name: node.Name, Address: node.Address}, refused.Reason)
			}
		}
	}
}
