package node

import (
	"context"
	"time"

	"strandline.dev/internal/cluster"
)

// DefaultLostAfter is for how long a node cannot be reached before its vote on the
// catalog goes to another one. It costs little to be wrong: the node follows the
// catalog all the same, and none of its logs moves.
const DefaultLostAfter = 30 * time.Second

// controller carries out what is due in the cluster, on the node that leads the
// catalog. What that is, cluster.State.Due decides.
type controller struct {
	node *Node
	// down is since when nodes cannot be reached, by id, as long as this node
	// leads the catalog. It belongs to run.
	down map[uint64]time.Time
}

// run looks for what is due until ctx ends.
func (c *controller) run(ctx context.Context) {
	tick := time.NewTicker(shapeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		catalog := c.node.catalog.Load()
		if host := catalog.host(); host.ended() != nil || !host.replica.Status().Leading {
			c.down = nil
			continue
		}
		state := catalog.shown.Load()
		c.look(state)
		view := c.view()
		if len(state.Due(view)) == 0 {
			continue
		}
		var actions []cluster.Action
		err := catalog.change(ctx, func(s *catalogState) (catalogChange, error) {
			actions = s.Due(view)
			return s.Enact(actions), nil
		})
		switch {
		case err == nil:
			c.node.logger.Info("changing the cluster", "actions", actions)
		case ctx.Err() == nil:
			c.node.logger.Warn("could not change the cluster as is due; trying again", "error", err)
		}
	}
}

// look notes which nodes cannot be reached, and since when.
func (c *controller) look(state *catalogState) {
	down := map[uint64]time.Time{}
	for id := range state.Nodes {
		if c.node.reaches(id) {
			continue
		}
		down[id] = time.Now()
		if since, before := c.down[id]; before {
			down[id] = since
		}
	}
	c.down = down
}

func (c *controller) view() cluster.View {
	return cluster.View{
		Alive: c.node.reaches,
		Lost: func(id uint64) bool {
			since, down := c.down[id]
			return down && time.Since(since) >= c.node.options.LostAfter
		},
	}
}

// reaches reports whether a node is connected, or is this one.
func (n *Node) reaches(id uint64) bool { return id == n.me.Load().NodeID || n.neighbours.up(id) }
