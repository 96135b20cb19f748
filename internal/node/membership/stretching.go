package membership

import (
	"context"
	"log/slog"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/peers"
)

// Stretching adapts the times of elections to the distance of the voters. Every node has a
// Stretching; the one of the catalog's leader decides.
type Stretching struct {
	logger  *slog.Logger
	catalog *catalog.Shared
	trips   *peers.Trips
}

// NewStretching returns a Stretching that uses the round trips measured by trips.
func NewStretching(logger *slog.Logger, catalog *catalog.Shared, trips *peers.Trips) *Stretching {
	return &Stretching{logger: logger, catalog: catalog, trips: trips}
}

// stretchEvery is the time between two checks of the round trips.
const stretchEvery = 2 * time.Second

// Run checks the distances until ctx ends.
func (s *Stretching) Run(ctx context.Context) {
	began, planner, term := time.Now(), cluster.Stretcher{}, uint64(0)
	for background.Pause(ctx, stretchEvery); ctx.Err() == nil; background.Pause(ctx, stretchEvery) {
		c := s.catalog.Load()
		status := c.Host().Replica.Status()
		if !status.Leading {
			continue
		}
		if status.Term != term {
			planner, term = cluster.Stretcher{}, status.Term
		}
		due := planner.Plan(time.Since(began).Milliseconds(), c.Shown.Load(), s.trips.All())
		if due.Empty() {
			continue
		}
		err := c.Change(ctx, func(state *cluster.State) (cluster.Change, error) { return cluster.Restretch(state, due), nil })
		if err == nil {
			s.logger.Info("the times of elections follow the round trips between voters", "logs", len(due.Put), "catalog", due.Stretch)
		} else if ctx.Err() == nil {
			s.logger.Warn("could not change the times of elections; trying again", "error", err)
		}
	}
}
