package node

import (
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
