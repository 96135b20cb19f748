package replicas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// repairer decides what happens to a replica whose files are damaged.
type repairer struct {
	segments        *segmentRepairer
	starter         *starter
	logger          *slog.Logger
	metrics         *metrics.Metrics
	me              *datadir.Me
	catalog         *catalog.Shared
	logs            *hosted.Logs
	files           *datadir.Files
	opener          *Opener
	renewals        *renewals
	catalogRepairer *catalogRepairer
	disk            vfs.FS
	caller          *peers.Caller
	peers           *peers.Peers
	tasks           *background.Tasks
	fetching        chan struct{} // full: repairAtOnce are under way
	// repaired is when logs were repaired last in this process, by id;
	// Opener.Changing guards it.
	repaired map[uint64]time.Time
}

// lose makes this log one whose replica must not speak any more.
func (rp *repairer) lose(h *hosted.Log, reason error) {
	h.Forgot = true
	h.Unavailable.Store(record.Refuse(record.NotLeader, "log %q gets a new replica on this node: %v", h.Name, reason))
	rp.metrics.Lost(h.Name)
	rp.logger.Error("a replica has lost what it knew, and is replaced by a new one", "log", h.Name, "replica", h.ReplicaID, "error", reason)
	rp.renewals.want()
}

// repair begins to repair a log that nothing else has open. The caller shows h to
// others, and holds changing or is alone with the node.
func (rp *repairer) startRepair(h *hosted.Log, l cluster.Log, cause error) {
	ctx, cancel := context.WithCancel(rp.tasks.Context)
	m := &replicaRepair{fetcher: fetcher{repairer: rp, host: h, cause: cause}, cancel: cancel, done: make(chan struct{})}
	m.others, m.ask = m.holders, m.askNode
	m.begin, m.say = m.openFiles, m.sayUnavailable
	m.after = rp.repaired[l.ID].Add(repairAgain)
	h.Rebuilding = m
	m.report("%v", cause)
	rp.logger.Error("a log is being repaired: it is not served here meanwhile", "log", h.Name, "replica", h.ReplicaID, "error", cause)
	rp.metrics.FoundDamage(h.Name)
	if !rp.tasks.Run(func(context.Context) { m.run(ctx) }) {
		close(m.done)
	}
}

// placedHere returns the log of a replica, as long as the catalog wants that
// one here. The caller holds changing.
func (rp *repairer) placedHere(h *hosted.Log) (l cluster.Log, ok bool) {
	l, ok = rp.catalog.Load().Shown.Load().Logs[h.Name]
	r, here := l.On(rp.me.Load().NodeID)
	return l, ok && here && l.ID == h.ID && r.ID == h.ReplicaID && rp.logs.Named(h.Name) == h
}

// HandOverTime is how long another replica has to take over before one with
// damaged files is closed all the same, or before a node without a catalog tries
// again.
const HandOverTime = 5 * time.Second

// shutTime is how long a log with damaged files may take to answer what is in
// flight.
const shutTime = 2 * time.Second

// damageOf is what an error of opening or reading the files of a replica says of
// them. shared: other nodes hold the log too.
func damageOf(cause error, shared bool) cluster.Damage {
	_, full := store.DamagedSegment(cause)
	return cluster.Damage{
		Lost: errors.Is(cause, errLost) || errors.Is(cause, core.ErrEndMissing),
		Corrupt: errors.As(cause, new(*segment.CorruptError)) || errors.Is(cause, fs.ErrNotExist) ||
			errors.Is(cause, core.ErrStartMissing) || errors.Is(cause, core.ErrSpliced),
		Full:   full && !errors.Is(cause, core.ErrEnded),
		Shared: shared,
	}
}

// FoundDamage is called when stored bytes of a log that runs here are not what
// was written. It may be called from anywhere, and does not block.
func (rp *repairer) FoundDamage(h *hosted.Log, cause error) {
	if errors.Is(cause, core.ErrEndMissing) {
		h.Forgetful.Store(true) // which counts for more than what was found before
	}
	d := damageOf(cause, rp.othersHold(h))
	d.Full = d.Full && !h.Leaving.Load()
	switch d.RunningRemedy() {
	case cluster.RepairSegment:
		file, _ := store.DamagedSegment(cause)
		rp.segments.add(h, hosted.DamagedSegment{File: file, Cause: cause})
	case cluster.TakeOut:
		rp.takeOut(h, cause)
	default:
		rp.reportDamage(h, cause)
	}
}

// othersHold reports whether there are other nodes to ask for entries of a log.
func (rp *repairer) othersHold(h *hosted.Log) bool {
	if h.ID == cluster.CatalogID {
		return len(rp.catalogRepairer.Holders()) > 0
	}
	_, shared := rp.sharedLog(h)
	return shared
}

// reportDamage logs damage once for each time that a log is opened.
func (rp *repairer) reportDamage(h *hosted.Log, cause error) {
	if !h.Reported.Swap(true) {
		rp.logger.Error("the files of a log are damaged", "log", h.Name, "replica", h.ReplicaID, "error", cause)
	}
}

// takeOut takes a replica with damaged files, which others hold too, out of service.
func (rp *repairer) takeOut(h *hosted.Log, cause error) {
	rp.reportDamage(h, cause)
	if h.Leaving.Swap(true) {
		return
	}
	rp.tasks.Run(func(ctx context.Context) {
		if h.ID == cluster.CatalogID {
			rp.catalogRepairer.attend(ctx, h, cause)
		} else if l, shared := rp.sharedLog(h); shared {
			rp.attend(ctx, h, l, cause)
		} else {
			h.Leaving.Store(false) // the others have left it meanwhile
		}
	})
}

// attend takes a replica whose files are damaged out of service: it hands over
// if it leads, and comes back once its files are whole, or under another id.
func (rp *repairer) attend(ctx context.Context, h *hosted.Log, l cluster.Log, cause error) {
	rp.rememberForgetful(h, cause)
	rp.opener.awaitShown()
	rp.stepDown(ctx, h)
	rp.opener.Changing.Lock()
	defer rp.opener.Changing.Unlock()
	if rp.logs.Named(h.Name) != h || rp.opener.Closed {
		return
	}
	after := hosted.New(l, h.ReplicaID)
	if !rp.Shut(h) {
		after.Unavailable.Store(record.Refuse(record.StorageFailed,
			"log %q has stopped on this node, whose disk does not answer: start the node again when it does. It is damaged: %v", h.Name, cause))
		rp.logs.Add(after)
		return
	}
	if h.Forgetful.Load() {
		rp.rememberForgetful(h, cause)
		cause = fmt.Errorf("%w: %w", core.ErrEndMissing, cause)
	}
	rp.opener.judge(after, l, cause)
	rp.logs.Add(after)
}

// rememberForgetful marks a replica that has forgotten what it promised. Its files
// look sound: without the mark, the next life of this node would believe them.
func (rp *repairer) rememberForgetful(h *hosted.Log, cause error) {
	if !h.Forgetful.Load() {
		return
	}
	if err := rp.files.MarkLost(h.ID, h.ReplicaID, cause.Error()); err != nil {
		rp.logger.Error("a replica that has forgotten could not be marked", "log", h.Name, "replica", h.ReplicaID, "error", err)
	}
}

// stepDown lets another replica lead, if this one does and there is one.
func (rp *repairer) stepDown(ctx context.Context, h *hosted.Log) {
	ctx, cancel := context.WithTimeout(ctx, HandOverTime)
	defer cancel()
	for h.Replica.Status().Leading && ctx.Err() == nil {
		if h.Replica.HandOver(ctx, 0) != nil {
			background.Pause(ctx, catalog.ChangePause)
		}
	}
}

// Shut closes a log whose files are damaged. It reports false if the disk hangs:
// then the files are still in use, and nobody else may touch them.
func (rp *repairer) Shut(h *hosted.Log) bool {
	closing, cancel := context.WithTimeout(context.Background(), shutTime)
	defer cancel()
	err := h.Close(closing)
	if err != nil {
		rp.logger.Warn("a log with damaged files did not close cleanly", "log", h.Name, "error", err)
	}
	return !errors.Is(err, runtime.ErrStalled)
}

// sharedLog reports whether other nodes hold a log too.
func (rp *repairer) sharedLog(h *hosted.Log) (l cluster.Log, shared bool) {
	c := rp.catalog.Load()
	if c == nil {
		return l, false
	}
	l, ok := c.Shown.Load().Logs[h.Name]
	return l, ok && l.ID == h.ID && len(l.All()) > 1
}
