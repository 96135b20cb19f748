package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/datadir"
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
	metrics         *metrics
	me              *atomic.Pointer[datadir.Identity]
	catalog         *atomic.Pointer[catalog]
	logs            *hostedLogs
	files           *datadir.Files
	opener          *opener
	renewals        *renewals
	catalogRepairer *catalogRepairer
	disk            vfs.FS
	caller          *caller
	peers           *peers
	tasks           *background.Tasks
	fetching        chan struct{} // full: repairAtOnce are under way
	// repaired is when logs were repaired last in this process, by id;
	// opener.changing guards it.
	repaired map[uint64]time.Time
}

// lose makes this log one whose replica must not speak any more.
func (rp *repairer) lose(h *hosted, reason error) {
	h.forgot = true
	h.unavailable.Store(record.Refuse(record.NotLeader, "log %q gets a new replica on this node: %v", h.name, reason))
	rp.metrics.lost(h.name)
	rp.logger.Error("a replica has lost what it knew, and is replaced by a new one", "log", h.name, "replica", h.replicaID, "error", reason)
	rp.renewals.want()
}

// repair begins to repair a log that nothing else has open. The caller shows h to
// others, and holds changing or is alone with the node.
func (rp *repairer) startRepair(h *hosted, l cluster.Log, cause error) {
	ctx, cancel := context.WithCancel(rp.tasks.Context)
	m := &replicaRepair{fetcher: fetcher{repairer: rp, host: h, cause: cause}, cancel: cancel, done: make(chan struct{})}
	m.others, m.ask = m.holders, m.askNode
	m.begin, m.say = m.openFiles, m.sayUnavailable
	m.after = rp.repaired[l.ID].Add(repairAgain)
	h.rebuilding = m
	m.report("%v", cause)
	rp.logger.Error("a log is being repaired: it is not served here meanwhile", "log", h.name, "replica", h.replicaID, "error", cause)
	rp.metrics.foundDamage(h.name)
	if !rp.tasks.Run(func(context.Context) { m.run(ctx) }) {
		close(m.done)
	}
}

// placedHere returns the log of a replica, as long as the catalog wants that
// one here. The caller holds changing.
func (rp *repairer) placedHere(h *hosted) (l cluster.Log, ok bool) {
	l, ok = rp.catalog.Load().shown.Load().Logs[h.name]
	r, here := l.On(rp.me.Load().NodeID)
	return l, ok && here && l.ID == h.id && r.ID == h.replicaID && rp.logs.named(h.name) == h
}

// handOverTime is how long another replica has to take over before one with
// damaged files is closed all the same, or before a node without a catalog tries
// again.
const handOverTime = 5 * time.Second

// shutTime is how long a log with damaged files may take to answer what is in
// flight.
const shutTime = 2 * time.Second

// damageOf is what an error of opening or reading the files of a replica says of
// them. shared: other nodes hold the log too.
func damageOf(cause error, shared bool) cluster.Damage {
	_, full := store.DamagedSegment(cause)
	return cluster.Damage{
		Lost: errors.Is(cause, errLost) || errors.Is(cause, core.ErrForgot),
		Corrupt: errors.As(cause, new(*segment.CorruptError)) || errors.Is(cause, fs.ErrNotExist) ||
			errors.Is(cause, core.ErrShort) || errors.Is(cause, core.ErrSpliced),
		Full:   full && !errors.Is(cause, core.ErrEnded),
		Shared: shared,
	}
}

// foundDamage is called when stored bytes of a log that runs here are not what
// was written. It may be called from anywhere, and does not block.
func (rp *repairer) foundDamage(h *hosted, cause error) {
	if errors.Is(cause, core.ErrForgot) {
		h.forgetful.Store(true) // which counts for more than what was found before
	}
	d := damageOf(cause, rp.othersHold(h))
	d.Full = d.Full && !h.leaving.Load()
	switch d.RunningRemedy() {
	case cluster.RepairSegment:
		file, _ := store.DamagedSegment(cause)
		rp.segments.add(h, damagedSegment{file, cause})
	case cluster.TakeOut:
		rp.takeOut(h, cause)
	default:
		rp.reportDamage(h, cause)
	}
}

// othersHold reports whether there are other nodes to ask for entries of a log.
func (rp *repairer) othersHold(h *hosted) bool {
	if h.id == cluster.CatalogID {
		return len(rp.catalogRepairer.holders()) > 0
	}
	_, shared := rp.sharedLog(h)
	return shared
}

// reportDamage logs damage once for each time that a log is opened.
func (rp *repairer) reportDamage(h *hosted, cause error) {
	if !h.reported.Swap(true) {
		rp.logger.Error("the files of a log are damaged", "log", h.name, "replica", h.replicaID, "error", cause)
	}
}

// takeOut takes a replica with damaged files, which others hold too, out of service.
func (rp *repairer) takeOut(h *hosted, cause error) {
	rp.reportDamage(h, cause)
	if h.leaving.Swap(true) {
		return
	}
	rp.tasks.Run(func(ctx context.Context) {
		if h.id == cluster.CatalogID {
			rp.catalogRepairer.attend(ctx, h, cause)
		} else if l, shared := rp.sharedLog(h); shared {
			rp.attend(ctx, h, l, cause)
		} else {
			h.leaving.Store(false) // the others have left it meanwhile
		}
	})
}

// attend takes a replica whose files are damaged out of service: it hands over
// if it leads, and comes back once its files are whole, or under another id.
func (rp *repairer) attend(ctx context.Context, h *hosted, l cluster.Log, cause error) {
	rp.rememberForgetful(h, cause)
	rp.opener.awaitShown()
	rp.stepDown(ctx, h)
	rp.opener.changing.Lock()
	defer rp.opener.changing.Unlock()
	if rp.logs.named(h.name) != h || rp.opener.closed {
		return
	}
	after := newHosted(l, h.replicaID)
	if !rp.shut(h) {
		after.unavailable.Store(record.Refuse(record.StorageFailed,
			"log %q has stopped on this node, whose disk does not answer: start the node again when it does. It is damaged: %v", h.name, cause))
		rp.logs.add(after)
		return
	}
	if h.forgetful.Load() {
		rp.rememberForgetful(h, cause)
		cause = fmt.Errorf("%w: %w", core.ErrForgot, cause)
	}
	rp.opener.judge(after, l, cause)
	rp.logs.add(after)
}

// rememberForgetful marks a replica that has forgotten what it promised. Its files
// look sound: without the mark, the next life of this node would believe them.
func (rp *repairer) rememberForgetful(h *hosted, cause error) {
	if !h.forgetful.Load() {
		return
	}
	if err := rp.files.MarkLost(h.id, h.replicaID, cause.Error()); err != nil {
		rp.logger.Error("a replica that has forgotten could not be marked", "log", h.name, "replica", h.replicaID, "error", err)
	}
}

// stepDown lets another replica lead, if this one does and there is one.
func (rp *repairer) stepDown(ctx context.Context, h *hosted) {
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	for h.replica.Status().Leading && ctx.Err() == nil {
		if h.replica.HandOver(ctx, 0) != nil {
			background.Pause(ctx, changePause)
		}
	}
}

// shut closes a log whose files are damaged. It reports false if the disk hangs:
// then the files are still in use, and nobody else may touch them.
func (rp *repairer) shut(h *hosted) bool {
	closing, cancel := context.WithTimeout(context.Background(), shutTime)
	defer cancel()
	err := h.close(closing)
	if err != nil {
		rp.logger.Warn("a log with damaged files did not close cleanly", "log", h.name, "error", err)
	}
	return !errors.Is(err, runtime.ErrStalled)
}

// sharedLog reports whether other nodes hold a log too.
func (rp *repairer) sharedLog(h *hosted) (l cluster.Log, shared bool) {
	c := rp.catalog.Load()
	if c == nil {
		return l, false
	}
	l, ok := c.shown.Load().Logs[h.name]
	return l, ok && l.ID == h.id && len(l.Replicas)+len(l.Leaving) > 1
}
