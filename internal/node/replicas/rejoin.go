package replicas

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/replica/core"
)

// Rejoin isolates a node that has restarted with an older copy of its data, this one or another,
// until its replicas are replaced.
type Rejoin struct {
	logger       *slog.Logger
	me           *datadir.Me
	catalog      *catalog.Shared
	logs         *hosted.Logs
	files        *datadir.Files
	incarnations *datadir.Incarnations
	admission    *peers.Admission
	repairer     *Repairer
	begun        atomic.Bool // this node takes part
}

// NewRejoin returns a Rejoin that replaces the replicas of this node when admission.Forgotten
// says that its data are an older copy.
func NewRejoin(
	logger *slog.Logger, me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs, files *datadir.Files, incarnations *datadir.Incarnations,
	admission *peers.Admission, repairer *Repairer,
) *Rejoin {
	return &Rejoin{
		logger: logger, me: me, catalog: catalog, logs: logs, files: files, incarnations: incarnations, admission: admission, repairer: repairer,
	}
}

// incarnationEvery bounds how much a node can forget without noticing.
const incarnationEvery = time.Minute

// Run advances this node's incarnation while there are other nodes to receive it. It is called when
// this node has begun.
func (j *Rejoin) Run(ctx context.Context) {
	j.begun.Store(true)
	for background.Pause(ctx, incarnationEvery); ctx.Err() == nil; background.Pause(ctx, incarnationEvery) {
		if len(j.catalog.Load().Shown.Load().Nodes) < 2 {
			continue
		}
		if err := j.incarnations.Advance(); err != nil {
			j.logger.Warn("could not note how far this node has come", "error", err)
		}
	}
}

// Watch receives from admission.Forgotten until ctx ends. It runs from the start of the node.
func (j *Rejoin) Watch(ctx context.Context) {
	for {
		select {
		case f := <-j.admission.Forgotten:
			j.replaceAll(ctx, f)
		case <-ctx.Done():
			return
		}
	}
}

// replaceAll replaces every replica of this node that other nodes hold too: each may have forgotten
// votes and entries. No replica is created without files either, because the list of replicas that
// were created here is outdated too. Until all of this is durable, no node accepts a message from
// this node.
func (j *Rejoin) replaceAll(ctx context.Context, f peers.Forgotten) {
	defer j.incarnations.Replacing.Store(false)
	if j.incarnations.Lost() {
		if err := j.incarnations.Raise(f.Number); err != nil {
			j.logger.Error("lives.json was lost and cannot be written", "error", err)
			background.Pause(ctx, renewAgain)
		}
		return
	}
	for !j.begun.Load() && ctx.Err() == nil {
		background.Pause(ctx, catalog.ChangePause)
	}
	cause := fmt.Errorf("%w: the data directory of this node is an older copy: node %q has later messages of this node", core.ErrEndMissing, f.Other)
	j.logger.Error("this node has started with an older copy of its data; its replicas are replaced", "error", cause)
	if err := j.forgetAll(cause); err != nil {
		j.logger.Error("cannot record that this node has lost data; it takes no part in its logs", "error", err)
		background.Pause(ctx, renewAgain)
		return
	}
	if err := j.incarnations.Raise(f.Number); err != nil {
		j.logger.Error("lives.json cannot be written", "error", err)
		background.Pause(ctx, renewAgain)
		return
	}
	for _, h := range j.logs.All() {
		if h.Found != nil && h.Config.Load().Durability != settings.Memory && j.repairer.othersHold(h) {
			h.Found(cause)
		}
	}
}

// forgetAll marks every replica on disk that others hold too as lost.
func (j *Rejoin) forgetAll(cause error) error {
	j.logs.Changing.Lock()
	defer j.logs.Changing.Unlock()
	me := j.me.Load()
	err := j.files.MarkLost(cluster.CatalogID, me.CatalogReplica, cause.Error())
	for _, l := range j.catalog.Load().Shown.Load().Logs {
		r, here := l.On(me.NodeID)
		if !here || len(l.All()) == 1 {
			continue
		}
		has, failed := j.files.HasLog(l.ID, r.ID)
		if has {
			failed = j.files.MarkLost(l.ID, r.ID, cause.Error())
		}
		err = errors.Join(err, failed)
	}
	j.catalog.Load().Current.Store(false) // the list is settled with the next state that is
	return errors.Join(err, j.files.Created.Lose())
}
