package replicas

import (
	"context"
	"errors"
	"fmt"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
)

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
		case errors.Is(err, segment.ErrTrimmed): // it is not needed any more
		default:
			rp.takeOut(h, fmt.Errorf("%w (%w)", d.Cause, err), by)
			for h.Leaving.Load() && ctx.Err() == nil {
				background.Pause(ctx, repairPauseTo) // who takes it out of service stops the repairs first
			}
		}
		h.Repairs.Finished()
	}
}

// segmentRepair asks the nodes that hold the log for what is damaged.
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
