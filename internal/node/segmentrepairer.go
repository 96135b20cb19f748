package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
)

// segmentRepairer repairs full segments of logs that run.
type segmentRepairer struct {
	logger   *slog.Logger
	metrics  *metrics
	repairer *repairer
	catalogs *catalogRepairer
	tasks    *background.Tasks
}

// add begins the repair of a segment of a log that runs.
func (sr *segmentRepairer) add(h *hosted, d damagedSegment) {
	begin := h.repairs.add(sr.tasks.Context, d, func(ctx context.Context) { sr.run(ctx, h) })
	if begin == nil {
		return
	}
	sr.logger.Error("a segment of a log is damaged, and is repaired while the log runs", "log", h.name, "replica", h.replicaID, "error", d.cause)
	sr.metrics.foundDamage(h.name)
	if !sr.tasks.Run(func(context.Context) { begin() }) {
		h.repairs.stopped()
	}
}

// run repairs one damaged segment after the other.
func (sr *segmentRepairer) run(ctx context.Context, h *hosted) {
	for {
		d, more := h.repairs.next()
		if !more {
			return
		}
		m := sr.repairOf(h, d)
		report, err := m.repairRunning(ctx)
		m.close()
		switch {
		case ctx.Err() != nil:
		case err == nil:
			sr.logger.Info("a segment was repaired", "log", h.name, "replica", h.replicaID, "file", d.file,
				"entries", report.Entries, "bytes", report.Bytes, "segments", report.Segments)
			sr.metrics.repaired(h.name, int64(report.Entries))
		case errors.Is(err, segment.ErrTrimmed): // it is not needed any more
		default:
			sr.repairer.takeOut(h, fmt.Errorf("%w (%w)", d.cause, err))
			for h.leaving.Load() && ctx.Err() == nil {
				background.Pause(ctx, repairPauseTo) // who takes it out of service stops the repairs first
			}
		}
		h.repairs.finished()
	}
}

// repairOf asks the nodes that hold the log for what is damaged.
func (sr *segmentRepairer) repairOf(h *hosted, d damagedSegment) *replicaRepair {
	var m *replicaRepair
	if h.id == cluster.CatalogID {
		m = sr.catalogs.from(h, d.cause)
	} else {
		m = &replicaRepair{fetcher: fetcher{repairer: sr.repairer, host: h, cause: d.cause}}
		m.others, m.ask = m.holders, m.askNode
	}
	m.say = func(text string) {
		text = fmt.Sprintf("a segment is under repair: %s", text)
		h.repairs.text.Store(&text)
	}
	m.begin = func(ctx context.Context) (*repair.Repairer, error) {
		committed, err := h.replica.Final(ctx)
		if err != nil {
			return nil, err
		}
		return repair.BeginOnline(h.log.(*store.Store), d.file, committed)
	}
	m.running = true
	return m
}
