package replicas

import (
	"context"
	"errors"
	"fmt"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// entriesBytes is the approximate payload of one answer, give or take an entry. The largest entry
// fits into an answer of the mesh as bytes, but not as base64 in JSON.
const entriesBytes = 1 << 20

// EntriesRequest asks for the entries [First, Last] of a log.
type EntriesRequest struct {
	// Cluster is set if the asking node cannot read its catalog.
	Cluster string `json:"cluster,omitempty"`
	Log     uint64 `json:"log"`
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	// Bytes allows payloads to follow the answer as bytes. Releases without this field request and
	// send base64.
	Bytes bool `json:"bytes,omitempty"`
}

// EntriesAnswer is a contiguous part of the requested entries from one replica's log. It may begin
// later or end earlier than requested, or be empty.
type EntriesAnswer struct {
	Entries []StoredEntry `json:"entries,omitempty"`
	// Settled is the highest index that this replica knows to be committed.
	Settled uint64 `json:"settled"`
	// Begins is the index of the first entry of this replica's log; earlier ones were trimmed. 0
	// means unknown.
	Begins uint64 `json:"begins,omitempty"`
	// BeginsTerm is the term of the entry before Begins.
	BeginsTerm uint64 `json:"begins_term,omitempty"`
	// Lacks means that the entry First is missing here or damaged.
	Lacks bool `json:"lacks,omitempty"`

	attached [][]byte // the payloads, in order
}

// Detach moves the payloads out of the JSON.
func (a *EntriesAnswer) Detach() {
	for i := range a.Entries {
		if e := &a.Entries[i]; len(e.Payload) > 0 {
			a.attached = append(a.attached, e.Payload)
			e.Attached, e.Payload = uint32(len(e.Payload)), nil
		}
	}
}

// Attached implements peers.Attaching.
func (a EntriesAnswer) Attached() [][]byte { return a.attached }

// Attach implements peers.Attachable.
func (a *EntriesAnswer) Attach(payloads []byte) error {
	for i := range a.Entries {
		e := &a.Entries[i]
		if n := uint64(e.Attached); n > uint64(len(payloads)) {
			return fmt.Errorf("entry %d of another node has %d bytes, received %d", e.Index, n, len(payloads))
		} else if n > 0 {
			e.Payload, payloads = payloads[:n:n], payloads[n:]
		}
		e.Attached = 0
	}
	if len(payloads) > 0 {
		return fmt.Errorf("%d bytes follow the entries of another node", len(payloads))
	}
	return nil
}

// StoredEntry is the encoding of a segment.Entry.
type StoredEntry struct {
	Index   uint64        `json:"i"`
	Term    uint64        `json:"t"`
	Type    uint8         `json:"y,omitempty"`
	First   record.Offset `json:"o"`
	Count   uint32        `json:"n,omitempty"`
	Time    int64         `json:"m"`
	CRC     uint32        `json:"c"`
	Payload []byte        `json:"p,omitempty"`
	// Attached bytes of payload follow the answer.
	Attached uint32 `json:"a,omitempty"`
}

// Valid returns the entries before the first invalid one.
func (a *EntriesAnswer) Valid() []segment.Entry {
	var frames []segment.Entry
	for i := range a.Entries {
		e := &a.Entries[i]
		if e.Check() != nil {
			break
		}
		frames = append(frames, segment.Entry{
			Index: e.Index, Term: e.Term, Type: e.Type, First: e.First, Count: e.Count, Time: e.Time, CRC: e.CRC, Payload: e.Payload,
		})
	}
	return frames
}

// Check validates the content of an entry, which package segment does not know.
func (e *StoredEntry) Check() error {
	if e.Count == 0 {
		return nil
	}
	parsed, err := record.ParseEntry(e.Payload)
	if err != nil {
		return fmt.Errorf("entry %d of another node: %w", e.Index, err)
	}
	if parsed.First != e.First || parsed.Count != e.Count || parsed.Time != e.Time {
		return fmt.Errorf("entry %d of another node has %d records at offset %d, not %d at %d", e.Index, parsed.Count, parsed.First, e.Count, e.First)
	}
	return nil
}

// EntryGiver sends entries to other nodes with damaged files.
type EntryGiver struct {
	logs *hosted.Logs
	self *peers.Self
}

// NewEntryGiver returns an EntryGiver for logs, and for the catalog of self while it is under
// repair.
func NewEntryGiver(logs *hosted.Logs, self *peers.Self) *EntryGiver {
	return &EntryGiver{logs: logs, self: self}
}

// Give answers askEntries from a replica that is running or being repaired.
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

// storedEntries reads entries of a running replica. It queries the settled index first: the entries
// up to it never change.
func storedEntries(ctx context.Context, h *hosted.Log, q EntriesRequest) (frames []segment.Entry, a EntriesAnswer, err error) {
	if h.Replica == nil || h.Unavailable.Load() != nil {
		return nil, a, record.Refuse(record.Busy, "log %q is not served on this node", h.Name)
	}
	if f := h.Replica.Status().Failed; f != nil && (f.Reason == record.Corrupt || f.Reason == record.NotLeader) {
		// Its entries may be whole each, and yet not one history.
		return nil, a, record.Refuse(record.Busy, "log %q is also damaged on this node", h.Name)
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
