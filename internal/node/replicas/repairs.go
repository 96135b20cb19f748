package replicas

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/vfs"
)

// Repairs is what all repairs of a node share: access to the files, and to the nodes that may
// have the missing entries.
type Repairs struct {
	disk    vfs.FS
	logger  *slog.Logger
	me      *datadir.Me
	catalog *catalog.Shared
	files   *datadir.Files
	peers   *peers.Peers
	caller  *peers.Caller
	running chan struct{} // full: repairAtOnce are under way
}

// NewRepairs returns a Repairs that asks other nodes for entries with caller.
func NewRepairs(
	disk vfs.FS, logger *slog.Logger, me *datadir.Me, catalog *catalog.Shared, files *datadir.Files, peers *peers.Peers, caller *peers.Caller,
) *Repairs {
	return &Repairs{
		disk: disk, logger: logger, me: me, catalog: catalog, files: files, peers: peers, caller: caller, running: make(chan struct{}, repairAtOnce),
	}
}

// of returns a repair of a log, which asks the other nodes that hold it.
func (r *Repairs) of(h *hosted.Log, cause error) *replicaRepair {
	m := &replicaRepair{fetcher: fetcher{repairs: r, host: h, cause: cause}}
	m.others, m.ask = m.holders, m.askNode
	return m
}

// rememberForgetful marks a replica that has forgotten what it promised. Its files
// look sound: without the mark, the next life of this node would believe them.
func (r *Repairs) rememberForgetful(h *hosted.Log, cause error) {
	if !h.Forgetful.Load() {
		return
	}
	if err := r.files.MarkLost(h.ID, h.ReplicaID, cause.Error()); err != nil {
		r.logger.Error("a replica that has forgotten could not be marked", "log", h.Name, "replica", h.ReplicaID, "error", err)
	}
}

// HandOverTime is how long another replica has to take over before one with
// damaged files is closed all the same, or before a node without a catalog tries
// again.
const HandOverTime = 5 * time.Second

// shutTime is how long a log with damaged files may take to answer what is in
// flight.
const shutTime = 2 * time.Second

// stepDown lets another replica lead, if this one does and there is one.
func stepDown(ctx context.Context, h *hosted.Log) {
	ctx, cancel := context.WithTimeout(ctx, HandOverTime)
	defer cancel()
	for h.Replica.Status().Leading && ctx.Err() == nil {
		if h.Replica.HandOver(ctx, 0) != nil {
			background.Pause(ctx, catalog.ChangePause)
		}
	}
}

// shut closes a log whose files are damaged. It reports false if the disk hangs:
// then the files are still in use, and nobody else may touch them.
func shut(logger *slog.Logger, h *hosted.Log) bool {
	closing, cancel := context.WithTimeout(context.Background(), shutTime)
	defer cancel()
	err := h.Close(closing)
	if err != nil {
		logger.Warn("a log with damaged files did not close cleanly", "log", h.Name, "error", err)
	}
	return !errors.Is(err, runtime.ErrStalled)
}
