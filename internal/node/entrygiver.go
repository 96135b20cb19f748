package node

import (
	"context"
	"errors"
	"sync/atomic"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// entryGiver gives entries to other nodes whose files are damaged.
type entryGiver struct {
	logs           *hostedLogs
	repairer       *repairer
	damagedCatalog *atomic.Pointer[hosted]
}

// give answers askEntries from a replica that runs, or is being repaired.
func (g *entryGiver) give(ctx context.Context, q entriesRequest) (a entriesAnswer, err error) {
	h := g.logs.byID(q.Log)
	if damaged := g.damagedCatalog.Load(); damaged != nil && q.Log == cluster.CatalogID {
		h = damaged
	}
	if h == nil || q.First == 0 || q.Last < q.First {
		return a, record.Refuse(record.Busy, "this node has no such entries at the moment")
	}
	var frames []segment.Frame
	if m := h.rebuilding; m != nil {
		frames, a.Settled, err = m.Entries(q.First, q.Last+1, entriesBytes)
	} else {
		frames, a, err = storedEntries(ctx, h, q)
	}
	var corrupt *segment.CorruptError
	switch {
	case errors.As(err, &corrupt) && h.rebuilding == nil:
		g.repairer.foundDamage(h, err)
		return a, nil
	case errors.Is(err, segment.ErrTrimmed), errors.Is(err, segment.ErrUnavailable), errors.As(err, &corrupt):
		return a, nil
	case err != nil:
		return a, err
	}
	for _, f := range frames {
		a.Entries = append(a.Entries, storedEntry{
			Index: f.Index, Term: f.Term, Type: f.Type, First: f.First, Count: f.Count, Time: f.Time, CRC: f.CRC, Payload: f.Payload,
		})
	}
	return a, nil
}

// storedEntries reads entries of a replica that runs. What is settled is asked
// first: those entries are the same whenever they are read.
func storedEntries(ctx context.Context, h *hosted, q entriesRequest) (frames []segment.Frame, a entriesAnswer, err error) {
	if h.replica == nil || h.unavailable.Load() != nil {
		return nil, a, record.Refuse(record.Busy, "log %q is not served on this node", h.name)
	}
	if f := h.replica.Status().Failed; f != nil && f.Reason == record.Corrupt {
		// Its entries may be whole each, and yet not one history.
		return nil, a, record.Refuse(record.Busy, "log %q is damaged on this node, too", h.name)
	}
	if a.Settled, err = h.replica.Final(ctx); err != nil {
		return nil, a, err
	}
	if !h.replica.Status().Short {
		begins := h.log.FirstIndex()
		if a.BeginsTerm, err = h.log.Term(begins - 1); err == nil {
			a.Begins = begins // else it has just been trimmed: the next question is answered
		}
	}
	first, last := max(q.First, h.log.FirstIndex()), min(q.Last, h.log.LastIndex())
	if last < first {
		return nil, a, nil
	}
	frames, err = h.log.Entries(first, last+1, entriesBytes)
	return frames, a, err
}
