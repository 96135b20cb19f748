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
	"strandline.dev/internal/transport/peer"
)

// rejoin keeps a node apart that has come back with an older copy of its data, this
// one or another, until its replicas are replaced.
type rejoin struct {
	logger       *slog.Logger
	me           *datadir.Me
	catalog      *catalog.Shared
	logs         *hosted.Logs
	self         *peers.Self
	files        *datadir.Files
	created      *datadir.ReplicaList
	incarnations *datadir.Incarnations
	opener       *Opener
	repairer     *repairer
	begun        *atomic.Bool
	tasks        *background.Tasks
}

// incarnationEvery bounds how much a node can forget without noticing.
const incarnationEvery = time.Minute

// Run advances this node's incarnation while there are other nodes to hear of it.
func (j *rejoin) Run(ctx context.Context) {
	for background.Pause(ctx, incarnationEvery); ctx.Err() == nil; background.Pause(ctx, incarnationEvery) {
		if len(j.catalog.Load().Shown.Load().Nodes) < 2 {
			continue
		}
		if err := j.incarnations.Advance(); err != nil {
			j.logger.Warn("could not note how far this node has come", "error", err)
		}
	}
}

// judgeLife refuses a node that comes back with an older copy of its data, and
// connections at all while this node is one.
func (j *rejoin) Judge(hello peer.Hello) error {
	older, forgotten := j.incarnations.Meet(hello.Node.ID, hello.Incarnation, hello.Known[j.me.Load().NodeID])
	if forgotten > 0 {
		if !j.incarnations.Replacing.Swap(true) {
			j.tasks.Run(func(ctx context.Context) { j.replaceAll(ctx, hello.Node.Name, forgotten) })
		}
		return fmt.Errorf("node %q has come back with an older copy of its data, and replaces its replicas", j.self.Name())
	}
	if older {
		return fmt.Errorf("node %q has come back with an older copy of its data: what it did since is known here", hello.Node.Name)
	}
	return nil
}

// outlive replaces every replica of this node that others hold too: it may have
// forgotten votes and entries. Nothing is made from nothing either, since the list
// of what was created here is older as well. Until all of that is durable, nobody
// takes a message of this node.
func (j *rejoin) replaceAll(ctx context.Context, other string, number uint64) {
	defer j.incarnations.Replacing.Store(false)
	if j.incarnations.Lost() {
		if err := j.incarnations.Raise(number); err != nil {
			j.logger.Error("lives.json was lost and cannot be written", "error", err)
			background.Pause(ctx, renewAgain)
		}
		return
	}
	for !j.begun.Load() && ctx.Err() == nil {
		background.Pause(ctx, catalog.ChangePause)
	}
	cause := fmt.Errorf("%w: the data directory of this node is an older copy, node %q has heard from it since", core.ErrEndMissing, other)
	j.logger.Error("this node has come back with an older copy of its data; its replicas are replaced", "error", cause)
	if err := j.forgetAll(cause); err != nil {
		j.logger.Error("a node that has forgotten cannot note so; it stays apart", "error", err)
		background.Pause(ctx, renewAgain)
		return
	}
	if err := j.incarnations.Raise(number); err != nil {
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
func (j *rejoin) forgetAll(cause error) error {
	j.opener.Changing.Lock()
	defer j.opener.Changing.Unlock()
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
	return errors.Join(err, j.created.Lose())
}
