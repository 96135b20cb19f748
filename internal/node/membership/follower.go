package membership

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
)

// Follower folds changes of the catalog as they become known.
type Follower struct {
	logger  *slog.Logger
	catalog *catalog.Shared
	peers   *peers.Peers
	opener  *replicas.Opener
	cleaner *replicas.Cleaner
}

// NewFollower returns a Follower that calls opener after each change, and cleaner once the newest
// state is known.
func NewFollower(
	logger *slog.Logger, catalog *catalog.Shared, peers *peers.Peers, opener *replicas.Opener, cleaner *replicas.Cleaner,
) *Follower {
	return &Follower{logger: logger, catalog: catalog, peers: peers, opener: opener, cleaner: cleaner}
}

// Run folds changes as they become known and hosts the replicas that they assign to this node.
func (f *Follower) Run(ctx context.Context) {
	c := f.catalog.Load()
	clean := false
	for {
		tail := c.Host().Replica.Tail()
		start, end, err := tail.Bounds()
		if err != nil {
			// The catalog's replica has ended, which Ready reports. It may be repaired.
			if background.Pause(ctx, cleanUpPause); ctx.Err() != nil {
				return
			}
			continue
		}
		err = c.Learn(ctx)
		if errors.Is(err, cluster.ErrNewer) {
			return // see Catalog.stop
		}
		if err != nil && ctx.Err() == nil {
			f.logger.Warn("the catalog could not be read; trying again", "error", err)
			background.Pause(ctx, catalog.ChangePause)
			continue
		}
		f.opener.Rehost()
		var again <-chan time.Time
		if !clean {
			if clean = f.cleaner.CleanUp(ctx); !clean {
				again = time.After(cleanUpPause)
			}
		}
		changed := tail.Changed(start, end)
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-again:
		case <-f.peers.Unknown.Met:
		case <-ctx.Done():
			return
		}
	}
}

// cleanUpPause is the time between two attempts to get the newest state after a start.
const cleanUpPause = 200 * time.Millisecond
