package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
)

// follower folds changes of the catalog as they become known.
type follower struct {
	logger  *slog.Logger
	catalog *atomic.Pointer[catalog]
	peers   *peers
	opener  *opener
	cleaner *cleaner
}

// followCatalog folds changes as they become known and hosts what they say.
func (f *follower) run(ctx context.Context) {
	c := f.catalog.Load()
	clean := false
	for {
		tail := c.host().replica.Tail()
		start, end, err := tail.Bounds()
		if err != nil {
			// The catalog's replica has ended, which Ready reports. It may be repaired.
			if background.Pause(ctx, cleanUpPause); ctx.Err() != nil {
				return
			}
			continue
		}
		err = c.learn(ctx)
		if errors.Is(err, cluster.ErrNewer) {
			return // see catalog.stop
		}
		if err != nil && ctx.Err() == nil {
			f.logger.Warn("the catalog could not be read; trying again", "error", err)
			background.Pause(ctx, changePause)
			continue
		}
		f.opener.rehost()
		var again <-chan time.Time
		if !clean {
			if clean = f.cleaner.cleanUp(ctx); !clean {
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
		case <-f.peers.unknown.met:
		case <-ctx.Done():
			return
		}
	}
}

// cleanUpPause lies between two tries to hear of the newest state after a start.
const cleanUpPause = 200 * time.Millisecond
