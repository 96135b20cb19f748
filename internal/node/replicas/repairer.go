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
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
)

// Repairer decides what happens to a replica whose files are damaged.
type Repairer struct {
	logger          *slog.Logger
	metrics         *metrics.Metrics
	me              *datadir.Me
	catalog         *catalog.Shared
	logs            *hosted.Logs
	tasks           *background.Tasks
	repairs         *Repairs
	catalogRepairer *CatalogRepairer
	renewals        *Renewals
	// repaired is when logs were repaired last in this process, by id;
	// hosted.Logs.Changing guards it.
	repaired map[uint64]time.Time
}

// NewRepairer returns a Repairer that repairs logs through repairs, and the catalog through
// catalogRepairer. It requests new replicas for lost ones through renewals.
func NewRepairer(
	logger *slog.Logger, metrics *metrics.Metrics, me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs, tasks *background.Tasks,
	repairs *Repairs, catalogRepairer *CatalogRepairer, renewals *Renewals,
) *Repairer {
	return &Repairer{
		logger: logger, metrics: metrics, me: me, catalog: catalog, logs: logs, tasks: tasks, repairs: repairs, catalogRepairer: catalogRepairer,
		renewals: renewals, repaired: map[uint64]time.Time{},
	}
}

// reopener opens a replica again once its files are whole. It is the Opener, which uses the
// Repairer and so passes itself with each call.
type reopener interface {
	host(l cluster.Log, id uint64) *hosted.Log
	RestartCatalog() error
}

// judge decides what to do with a log that could not be opened, was taken out of service or could
// not be repaired.
func (rp *Repairer) judge(h *hosted.Log, l cluster.Log, err error, by reopener) {
	if err == nil {
		return
	}
	switch damageOf(err, len(l.All()) > 1).StoppedRemedy() {
	case cluster.Renew:
		rp.lose(h, err)
	case cluster.Repair:
		rp.startRepair(h, l, err, by)
	case cluster.Refuse:
		rp.logger.Error("a log cannot be served", "log", l.Name, "error", err)
		h.Unavailable.Store(record.Refuse(record.Corrupt,
			"log %q cannot be served here: %v; no other node has it: stop this one and bring the files back from a copy", h.Name, err))
	default:
		// This allows no conclusion about the stored data: others may serve the log, and this node
		// serves it when the cause is gone, see Opener.Run.
		h.Unopened = err
		h.Unavailable.Store(record.Refuse(record.NotLeader, "log %q cannot be opened on this node, which will try again: %v", h.Name, err))
	}
}

// lose marks the replica of a log as lost: it must not send messages any more.
func (rp *Repairer) lose(h *hosted.Log, reason error) {
	h.Forgot = true
	h.Unavailable.Store(record.Refuse(record.NotLeader, "log %q gets a new replica on this node: %v", h.Name, reason))
	rp.metrics.Lost(h.Name)
	rp.logger.Error("a replica has lost data, and is replaced by a new one", "log", h.Name, "replica", h.ReplicaID, "error", reason)
	rp.renewals.want()
}

// startRepair begins to repair a log that nothing else has open. The caller publishes h, and holds
// changing or is the only user of the node.
func (rp *Repairer) startRepair(h *hosted.Log, l cluster.Log, cause error, by reopener) {
	ctx, cancel := context.WithCancel(rp.tasks.Context)
	m := rp.repairs.of(h, cause)
	m.cancel, m.done = cancel, make(chan struct{})
	m.begin, m.say = m.openFiles, m.sayUnavailable
	m.after = rp.repaired[l.ID].Add(repairAgain)
	h.Rebuilding = m
	m.report("%v", cause)
	rp.logger.Error("a log is being repaired and is not served here meanwhile", "log", h.Name, "replica", h.ReplicaID, "error", cause)
	rp.metrics.FoundDamage(h.Name)
	if !rp.tasks.Run(func(context.Context) { rp.repair(ctx, m, by) }) {
		close(m.done)
	}
}

// repair runs a repair. Then the log is opened again, or its replica replaced.
func (rp *Repairer) repair(ctx context.Context, m *replicaRepair, by reopener) {
	defer m.cancel()
	report, err := m.repair(ctx)
	close(m.done)
	if ctx.Err() != nil {
		return
	}
	rp.logs.Changing.Lock()
	defer rp.logs.Changing.Unlock()
	l, ok := rp.placedHere(m.host)
	if !ok || rp.logs.Closed {
		return
	}
	rp.repaired[l.ID] = time.Now()
	var after *hosted.Log
	if err != nil {
		after = hosted.New(l, m.host.ReplicaID)
		rp.judge(after, l, fmt.Errorf("%w: %w", errLost, err), by)
	} else {
		rp.logger.Info("a log was repaired", "log", l.Name, "replica", m.host.ReplicaID,
			"entries", report.Entries, "bytes", report.Bytes, "segments", report.Segments, "kept_aside", report.Aside)
		rp.metrics.Repaired(l.Name, int64(report.Entries))
		after = by.host(l, m.host.ReplicaID)
	}
	rp.logs.Add(after)
}

// placedHere returns the log of a replica, as long as the catalog wants that
// one here. The caller holds changing.
func (rp *Repairer) placedHere(h *hosted.Log) (l cluster.Log, ok bool) {
	l, ok = rp.catalog.Load().Shown.Load().Logs[h.Name]
	r, here := l.On(rp.me.Load().NodeID)
	return l, ok && here && l.ID == h.ID && r.ID == h.ReplicaID && rp.logs.Named(h.Name) == h
}

// damageOf classifies an error of opening or reading the files of a replica. shared: other nodes
// hold the log too.
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

// foundDamage is called when stored bytes of a log that runs here are not what
// was written. It may be called from anywhere, and does not block.
func (rp *Repairer) foundDamage(h *hosted.Log, cause error, by reopener) {
	if errors.Is(cause, core.ErrEndMissing) {
		h.Forgetful.Store(true) // it takes precedence over earlier findings
	}
	d := damageOf(cause, rp.othersHold(h))
	d.Full = d.Full && !h.Leaving.Load()
	switch d.RunningRemedy() {
	case cluster.RepairSegment:
		file, _ := store.DamagedSegment(cause)
		rp.addSegment(h, hosted.DamagedSegment{File: file, Cause: cause}, by)
	case cluster.TakeOut:
		rp.takeOut(h, cause, by)
	default:
		rp.reportDamage(h, cause)
	}
}

// othersHold reports whether there are other nodes to ask for entries of a log.
func (rp *Repairer) othersHold(h *hosted.Log) bool {
	if h.ID == cluster.CatalogID {
		return len(rp.catalogRepairer.Holders()) > 0
	}
	_, shared := rp.sharedLog(h)
	return shared
}

// reportDamage logs damage once for each time that a log is opened.
func (rp *Repairer) reportDamage(h *hosted.Log, cause error) {
	if !h.Reported.Swap(true) {
		rp.logger.Error("the files of a log are damaged", "log", h.Name, "replica", h.ReplicaID, "error", cause)
	}
}

// takeOut takes a replica with damaged files out of service. Other nodes hold its log too.
func (rp *Repairer) takeOut(h *hosted.Log, cause error, by reopener) {
	rp.reportDamage(h, cause)
	if h.Leaving.Swap(true) {
		return
	}
	rp.tasks.Run(func(ctx context.Context) {
		if h.ID == cluster.CatalogID {
			rp.catalogRepairer.attend(ctx, h, cause, by.RestartCatalog)
		} else if l, shared := rp.sharedLog(h); shared {
			rp.attend(ctx, h, l, cause, by)
		} else {
			h.Leaving.Store(false) // the others have left it meanwhile
		}
	})
}

// attend takes a replica with damaged files out of service. It hands over if it leads, and returns
// when its files are intact, or under another id.
func (rp *Repairer) attend(ctx context.Context, h *hosted.Log, l cluster.Log, cause error, by reopener) {
	rp.repairs.rememberForgetful(h, cause)
	rp.logs.AwaitShown()
	stepDown(ctx, h)
	rp.logs.Changing.Lock()
	defer rp.logs.Changing.Unlock()
	if rp.logs.Named(h.Name) != h || rp.logs.Closed {
		return
	}
	after := hosted.New(l, h.ReplicaID)
	if !shut(rp.logger, h) {
		after.Unavailable.Store(record.Refuse(record.StorageFailed,
			"log %q has stopped on this node, whose disk does not answer: start the node again when it does. It is damaged: %v", h.Name, cause))
		rp.logs.Add(after)
		return
	}
	if h.Forgetful.Load() {
		rp.repairs.rememberForgetful(h, cause)
		cause = fmt.Errorf("%w: %w", core.ErrEndMissing, cause)
	}
	rp.judge(after, l, cause, by)
	rp.logs.Add(after)
}

// sharedLog reports whether other nodes hold a log too.
func (rp *Repairer) sharedLog(h *hosted.Log) (l cluster.Log, shared bool) {
	c := rp.catalog.Load()
	if c == nil {
		return l, false
	}
	l, ok := c.Shown.Load().Logs[h.Name]
	return l, ok && l.ID == h.ID && len(l.All()) > 1
}

// addSegment begins the repair of a segment of a log that runs.
func (rp *Repairer) addSegment(h *hosted.Log, d hosted.DamagedSegment, by reopener) {
	begin := h.Repairs.Add(rp.tasks.Context, d, func(ctx context.Context) { rp.repairSegments(ctx, h, by) })
	if begin == nil {
		return
	}
	rp.logger.Error("a segment of a log is damaged, and is repaired while the log runs", "log", h.Name, "replica", h.ReplicaID, "error", d.Cause)
	rp.metrics.FoundDamage(h.Name)
	if !rp.tasks.Run(func(context.Context) { begin() }) {
		h.Repairs.Stopped()
	}
}

// repairSegments repairs one damaged segment after the other.
func (rp *Repairer) repairSegments(ctx context.Context, h *hosted.Log, by reopener) {
	for {
		d, more := h.Repairs.Next()
		if !more {
			return
		}
		m := rp.segmentRepair(h, d)
		report, err := m.repairRunning(ctx)
		m.close()
		switch {
		case ctx.Err() != nil:
		case err == nil:
			rp.logger.Info("a segment was repaired", "log", h.Name, "replica", h.ReplicaID, "file", d.File,
				"entries", report.Entries, "bytes", report.Bytes, "segments", report.Segments)
			rp.metrics.Repaired(h.Name, int64(report.Entries))
		case errors.Is(err, segment.ErrTrimmed): // the repair is no longer needed
		default:
			rp.takeOut(h, fmt.Errorf("%w (%w)", d.Cause, err), by)
			for h.Leaving.Load() && ctx.Err() == nil {
				background.Pause(ctx, repairPauseTo) // takeOut stops the repairs first
			}
		}
		h.Repairs.Finished()
	}
}

// segmentRepair returns a repair that requests the damaged entries from the nodes that hold the
// log.
func (rp *Repairer) segmentRepair(h *hosted.Log, d hosted.DamagedSegment) *replicaRepair {
	m := rp.repairs.of(h, d.Cause)
	if h.ID == cluster.CatalogID {
		m = rp.catalogRepairer.from(h, d.Cause)
	}
	m.say = func(text string) {
		text = fmt.Sprintf("a segment is under repair: %s", text)
		h.Repairs.Text.Store(&text)
	}
	m.begin = func(ctx context.Context) (*repair.Repairer, error) {
		committed, err := h.Replica.Final(ctx)
		if err != nil {
			return nil, err
		}
		return repair.BeginOnline(h.Store.(*store.Store), d.File, committed, forgedEntry(d.Cause))
	}
	m.running = true
	return m
}
