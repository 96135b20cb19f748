package replicas

import (
	"context"
	"errors"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// EntryGiver gives entries to other nodes whose files are damaged.
type EntryGiver struct {
	logs *hosted.Logs
	self *peers.Self
}

// NewEntryGiver returns an EntryGiver for logs, and for the catalog of self that is under repair.
func NewEntryGiver(logs *hosted.Logs, self *peers.Self) *EntryGiver {
	return &EntryGiver{logs: logs, self: self}
}

// Give answers askEntries from a replica that runs, or is being repaired.
func (g *EntryGiver) Give(ctx context.Context, q EntriesRequest) (a EntriesAnswer, err error) {
	h := g.logs.ByID(q.Log)
	if damaged := g.self.DamagedCatalog.Load(); damaged != nil && q.Log == cluster.CatalogID {
		h = damaged
	}
	if h == nil || q.First == 0 || q.Last < q.First {
		return a, record.Refuse(record.Busy, "this node has no such entries at the moment")
	}
	var frames []segment.Entry
	if m := h.Rebuilding; m != nil {
		frames, a.Settled, err = m.Entries(q.First, q.Last+1, entriesBytes)
		a.Lacks = m.Lacks(q.First)
	} else {
		frames, a, err = storedEntries(ctx, h, q)
	}
	var corrupt *segment.CorruptError
	switch {
	case errors.As(err, &corrupt) && h.Rebuilding == nil:
		h.Found(err)
		a.Lacks = corrupt.FirstIndex <= q.First
		return a, nil
	case errors.Is(err, segment.ErrTrimmed), errors.Is(err, segment.ErrUnavailable), errors.As(err, &corrupt):
		return a, nil
	case err != nil:
		return a, err
	}
	for _, f := range frames {
		a.Entries = append(a.Entries, StoredEntry{
			Index: f.Index, Term: f.Term, Type: f.Type, First: f.First, Count: f.Count, Time: f.Time, CRC: f.CRC, Payload: f.Payload,
		})
	}
	if q.Bytes {
		a.Detach()
	}
	return a, nil
}

// storedEntries reads entries of a replica that runs. What is settled is asked
// first: those entries are the same whenever they are read.
func storedEntries(ctx context.Context, h *hosted.Log, q EntriesRequest) (frames []segment.Entry, a EntriesAnswer, err error) {
	if h.Replica == nil || h.Unavailable.Load() != nil {
		return nil, a, record.Refuse(record.Busy, "log %q is not served on this node", h.Name)
	}
	if f := h.Replica.Status().Failed; f != nil && (f.Reason == record.Corrupt || f.Reason == record.NotLeader) {
		// Its entries may be whole each, and yet not one history.
		return nil, a, record.Refuse(record.Busy, "log %q is damaged on this node, too", h.Name)
	}
	if a.Settled, err = h.Replica.Final(ctx); err != nil {
		return nil, a, err
	}
	if !h.Replica.Status().Short {
		begins := h.Store.FirstIndex()
		if a.BeginsTerm, err = h.Store.Term(begins - 1); err == nil {
			a.Begins = begins // else it has just been trimmed: the next question is answered
		}
	}
	first, last := max(q.First, h.Store.FirstIndex()), min(q.Last, h.Store.LastIndex())
	a.Lacks = q.First > last
	if last < first {
		return nil, a, nil
	}
	frames, err = h.Store.Entries(first, last+1, entriesBytes)
	return frames, a, err
}
