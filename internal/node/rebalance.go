package node

import (
	"context"

	"strandline.dev/internal/cluster"
)

// Rebalance spreads the replicas of all logs evenly over the nodes that can be
// reached: the node that leads the catalog moves some at a time. It returns how
// many move or are still to.
func (n *Node) Rebalance(ctx context.Context, _ Caller) (left int, err error) {
	c := n.catalog.Load()
	if c == nil {
		return 0, n.notMember()
	}
	view := cluster.View{Alive: n.reaches}
	err = c.change(ctx, func(s *catalogState) (catalogChange, error) {
		left = len(s.Spread(view))
		for _, l := range s.Logs {
			if !l.Settled() {
				left++
			}
		}
		if s.Spreading || len(s.Spread(view)) == 0 {
			return catalogChange{}, nil
		}
		return catalogChange{Spread: new(true)}, nil
	})
	return left, err
}
