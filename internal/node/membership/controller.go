package membership

import (
	"context"
	"log/slog"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/peers"
)

// Controller makes due changes of the cluster, on the node that leads the catalog. cluster.Due
// decides them.
type Controller struct {
	logger  *slog.Logger
	catalog *catalog.Shared
	due     *background.Bell
	peers   *peers.Peers
	// quiet is the state of the cluster for which no change was due. It belongs to run.
	quiet sight
}

// NewController returns a Controller that checks for due changes when due rings, and at intervals.
func NewController(logger *slog.Logger, catalog *catalog.Shared, due *background.Bell, peers *peers.Peers) *Controller {
	return &Controller{logger: logger, catalog: catalog, due: due, peers: peers}
}

// sight is the state on which the controller bases one decision.
type sight struct {
	state       *cluster.State
	alive, lost []uint64 // sorted
}

// Run checks for due changes until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	for looks := c.due.Looks(); looks.Next(ctx); {
		catalog := c.catalog.Load()
		if host := catalog.Host(); host.Ended() != nil || !host.Replica.Status().Leading {
			c.quiet = sight{}
			continue
		}
		now := c.look(catalog.Shown.Load())
		if now.same(c.quiet) {
			continue
		}
		if len(cluster.Due(now.state, now.view())) == 0 {
			c.quiet = now
			continue
		}
		var actions []cluster.Action
		err := catalog.Change(ctx, func(s *cluster.State) (cluster.Change, error) {
			actions = cluster.Due(s, now.view())
			return cluster.Enact(s, actions), nil
		})
		switch {
		case err == nil:
			c.logger.Info("changing the cluster", "actions", actions)
		case ctx.Err() == nil:
			c.logger.Warn("could not change the cluster as is due; trying again", "error", err)
		}
	}
}

// look sees which nodes can be reached.
func (c *Controller) look(state *cluster.State) sight {
	now := sight{state: state}
	for _, n := range state.Members() {
		switch {
		case c.peers.Reaches(n.ID):
			now.alive = append(now.alive, n.ID)
		case c.peers.Lost(n.ID):
			now.lost = append(now.lost, n.ID)
		}
	}
	return now
}

func (s sight) same(other sight) bool {
	return s.state == other.state && slices.Equal(s.alive, other.alive) && slices.Equal(s.lost, other.lost)
}

func (s sight) view() cluster.View {
	return cluster.View{
		Alive: func(node uint64) bool { return slices.Contains(s.alive, node) },
		Lost:  func(node uint64) bool { return slices.Contains(s.lost, node) },
	}
}
