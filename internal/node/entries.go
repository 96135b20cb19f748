package node

import (
	"context"
	"errors"
	"fmt"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// entriesBytes is how much payload one answer holds, give or take an entry. As
// base64 in JSON the largest entry fits into an answer of the mesh.
const entriesBytes = 1 << 20

// entriesRequest asks for the entries [First, Last] of a log.
type entriesRequest struct {
	// Cluster is set where a node asks that cannot read its catalog.
	Cluster string `json:"cluster,omitempty"`
	Log     uint64 `json:"log"`
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
}

// entriesAnswer is one piece of one replica's log without a gap: of what was
// asked for, and may begin later or end earlier, or be empty.
type entriesAnswer struct {
	Entries []storedEntry `json:"entries,omitempty"`
	// Settled: entries up to here are committed, as far as this replica knows.
	Settled uint64 `json:"settled"`
	// Begins is the index of the first entry of this replica's log, all before
	// were trimmed; 0: it is not known.
	Begins uint64 `json:"begins,omitempty"`
	// BeginsTerm is the term of the entry before that.
	BeginsTerm uint64 `json:"begins_term,omitempty"`
}

// storedEntry is a segment.Frame on its way.
type storedEntry struct {
	Index   uint64        `json:"i"`
	Term    uint64        `json:"t"`
	Type    uint8         `json:"y,omitempty"`
	First   record.Offset `json:"o"`
	Count   uint32        `json:"n,omitempty"`
	Time    int64         `json:"m"`
	CRC     uint32        `json:"c"`
	Payload []byte        `json:"p,omitempty"`
}

// giveEntries answers askEntries from a replica that runs, or is being mended.
func (n *Node) giveEntries(ctx context.Context, q entriesRequest) (a entriesAnswer, err error) {
	h := (*n.byID.Load())[q.Log]
	if m := n.catalogMending.Load(); m != nil && q.Log == catalogID {
		h = m.host
	}
	if h == nil || q.First == 0 || q.Last < q.First {
		return a, record.Refuse(record.Busy, "this node has no such entries at the moment")
	}
	var frames []segment.Frame
	if m := h.mending; m != nil {
		frames, a.Settled, err = m.entries(q.First, q.Last+1, entriesBytes)
	} else {
		frames, a, err = h.storedEntries(ctx, q)
	}
	var corrupt *segment.CorruptError
	switch {
	case errors.As(err, &corrupt) && h.mending == nil:
		n.foundDamage(h, err)
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
func (h *hosted) storedEntries(ctx context.Context, q entriesRequest) (frames []segment.Frame, a entriesAnswer, err error) {
	if h.replica == nil || h.standing.Load() != nil {
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

// frames are the entries up to the first that is not what it says.
func (a *entriesAnswer) frames() []segment.Frame {
	var frames []segment.Frame
	for i := range a.Entries {
		e := &a.Entries[i]
		if e.check() != nil {
			break
		}
		frames = append(frames, segment.Frame{
			Index: e.Index, Term: e.Term, Type: e.Type, First: e.First, Count: e.Count, Time: e.Time, CRC: e.CRC, Payload: e.Payload,
		})
	}
	return frames
}

// check looks at what the room of segments does not know: what an entry holds.
func (e *storedEntry) check() error {
	if e.Count == 0 {
		return nil
	}
	parsed, err := record.ParseEntry(e.Payload)
	if err != nil {
		return fmt.Errorf("entry %d of another node: %w", e.Index, err)
	}
	if parsed.First != e.First || parsed.Count != e.Count || parsed.Time != e.Time {
		return fmt.Errorf("entry %d of another node holds %d records at offset %d, not %d at %d", e.Index, parsed.Count, parsed.First, e.Count, e.First)
	}
	return nil
}
