package replicas

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
)

// segmentRepairer repairs full segments of logs that run.
type segmentRepairer struct {
	logger   *slog.Logger
	metrics  *metrics.Metrics
	repairer *repairer
	catalogs *catalogRepairer
	tasks    *background.Tasks
}

// add begins the repair of a segment of a log that runs.
func (sr *segmentRepairer) add(h *hosted.Log, d hosted.DamagedSegment) {
	begin := h.Repairs.Add(sr.tasks.Context, d, func(ctx context.Context) { sr.run(ctx, h) })
	if begin == nil {
		return
	}
	sr.logger.Error("a segment of a log is damaged, and is repaired while the log runs", "log", h.Name, "replica", h.ReplicaID, "error", d.Cause)
	sr.metrics.FoundDamage(h.Name)
	if !sr.tasks.Run(func(context.Context) { begin() }) {
		h.Repairs.Stopped()
	}
}

// run repairs one damaged segment after the other.
func (sr *segmentRepairer) run(ctx context.Context, h *hosted.Log) {
	for {
		d, more := h.Repairs.Next()
		if !more {
			return
		}
		m := sr.repairOf(h, d)
		report, err := m.repairRunning(ctx)
		m.close()
		switch {
		case ctx.Err() != nil:
		case err == nil:
			sr.logger.Info("a segment was repaired", "log", h.Name, "replica", h.ReplicaID, "file", d.File,
				"entries", report.Entries, "bytes", report.Bytes, "segments", report.Segments)
			sr.metrics.Repaired(h.Name, int64(report.Entries))
		case errors.Is(err, segment.ErrTrimmed): // it is not needed any more
		default:
			sr.repairer.takeOut(h, fmt.Errorf("%w (%w)", d.Cause, err))
			for h.Leaving.Load() && ctx.Err() == nil {
				background.Pause(ctx, repairPauseTo) // who takes it out of service stops the repairs first
			}
		}
		h.Repairs.Finished()
	}
}

// repairOf asks the nodes that hold the log for what is damaged.
func (sr *segmentRepairer) repairOf(h *hosted.Log, d hosted.DamagedSegment) *replicaRepair {
	var m *replicaRepair
	if h.ID == cluster.CatalogID {
		m = sr.catalogs.from(h, d.Cause)
	} else {
		m = &replicaRepair{fetcher: fetcher{repairer: sr.repairer, host: h, cause: d.Cause}}
		m.others, m.ask = m.holders, m.askNode
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
