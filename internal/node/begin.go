package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/transport/peer"
)

// beginning starts the work of a member in its cluster.
type beginning struct {
	logger       *slog.Logger
	me           *datadir.Me
	catalog      *catalog.Shared
	logs         *hosted.Logs
	incarnations *datadir.Incarnations
	tasks        *background.Tasks
	self         *peers.Self
	mesh         *peer.Mesh
	opener       *replicas.Opener
	renewer      *replicas.Renewer
	cleaner      *replicas.Cleaner
	roll         *membership.Roll
	reshaper     *membership.Reshaper
	runs         []func(context.Context)

	mu    sync.Mutex // held while the node begins
	begun bool
}

// newBeginning returns a beginning that opens the catalog and the logs with opener, and then starts
// runs as tasks.
func newBeginning(
	logger *slog.Logger, me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs, incarnations *datadir.Incarnations, tasks *background.Tasks,
	self *peers.Self, mesh *peer.Mesh, opener *replicas.Opener, renewer *replicas.Renewer, cleaner *replicas.Cleaner,
	roll *membership.Roll, reshaper *membership.Reshaper, runs []func(context.Context),
) *beginning {
	return &beginning{
		logger: logger, me: me, catalog: catalog, logs: logs, incarnations: incarnations, tasks: tasks, self: self, mesh: mesh,
		opener: opener, renewer: renewer, cleaner: cleaner, roll: roll, reshaper: reshaper, runs: runs,
	}
}

// openTimeout bounds the time in which a node without peers must become ready.
const openTimeout = time.Minute

// Begin starts this member's work. The only node of a cluster serves its logs when Begin returns; a
// node with peers does so as soon as it reaches them. It may be called again: until it has
// succeeded it continues from where it failed.
func (b *beginning) Begin() (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begun {
		return nil
	}
	me, c := b.me.Load(), b.catalog.Load()
	if c == nil {
		if c, err = b.opener.HostCatalog(); err != nil {
			return err
		}
	}
	host := c.Host()
	if err := b.incarnations.Begin(); err != nil {
		b.logger.Warn("the start of this node could not be noted", "error", err)
	}
	b.mesh.Identify(me.ClusterID, b.self.PeerNode())
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	err = host.Replica.AwaitReplay(ctx)
	switch {
	case err != nil:
	case host.Replica.Status().SoleVoter:
		if err := b.beginAlone(ctx); err != nil {
			return err
		}
	default:
		err = c.Learn(ctx)
	}
	// CatalogRepairer repairs the damage; the rest of the catalog's content is applied afterwards.
	if err != nil && !host.Leaving.Load() && !host.Repairs.Begun.Load() {
		return fmt.Errorf("open catalog: %w", err)
	}
	b.opener.Rehost()
	for _, run := range b.runs {
		b.tasks.Run(run)
	}
	b.begun = true
	return nil
}

func (b *beginning) beginAlone(ctx context.Context) error {
	c := b.catalog.Load()
	if err := c.Host().Replica.AwaitLeaderReady(ctx); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	if err := c.Refresh(ctx); err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	if err := b.roll.Introduce(ctx); err != nil {
		return err
	}
	if refusal := b.self.RefuseLevel(c.Shown.Load()); refusal != nil {
		return refusal
	}
	if err := b.cleaner.RemoveOrphans(c.Shown.Load()); err != nil {
		return err
	}
	b.opener.Rehost()
	if _, err := b.renewer.Renew(ctx); err != nil {
		return err
	}
	for _, h := range b.logs.All() {
		if h.Unavailable.Load() != nil || h.Replica.AwaitReplay(ctx) != nil || !h.Replica.Status().SoleVoter {
			continue
		}
		// A log that cannot be served is reported by Ready; the others continue.
		err := h.Replica.AwaitLeaderReady(ctx)
		if err == nil {
			err = b.reshaper.ContinueBehind(ctx, h)
		}
		if err != nil {
			b.logger.Error("a log cannot be served", "log", h.Name, "error", err)
		}
	}
	return nil
}
