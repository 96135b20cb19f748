package sequence

import (
	"math"

	"strandline.dev/internal/record"
)

// Sizes of the encoded parts, as package record writes them.
var (
	entryHeaderBytes = len(record.AppendEntryHeader(nil, record.Entry{}))
	batchMetaBytes   = len(record.AppendMeta(nil, record.BatchMeta{}))
)

// firstRoomBytes is the room before a body that has to do for header and
// metadata at first: some 250 batches. A proposal of more makes room once, and
// its buffer, which is used again, keeps it.
const firstRoomBytes = 12 << 10

// proposal is an entry on its way: open, then closed, sealed, and at last retired
// when it has committed, or undone.
//
// Metadata comes before the batches in an entry, and neither its size nor the
// time and chain value of the header are known before the proposal is sealed. So
// batches gather behind room that is kept free, and sealing writes header and
// metadata right-aligned into it; no batch is copied twice.
//
//	buffer:  |....free....| header | metadata | batch | batch | ...
//	                      ^                   ^
//	                      entry begins        room
type proposal struct {
	number  uint64
	kind    record.EntryKind
	first   record.Offset
	count   uint32 // records
	batches int

	buffer []byte // taken away when the sealed bytes are done with
	room   int
	metas  []byte

	before  logState // the log before this proposal
	changes []change // of sessions, in order

	sealed bool
	crc    uint32 // of the sealed entry
	chain  uint64 // before this entry; if sealed
	time   int64  // of the entry before; if sealed
}

// size is that of the encoded entry.
func (d *proposal) size() int {
	return entryHeaderBytes + len(d.metas) + len(d.buffer) - d.room
}

// fits reports whether bytes of batches and metadata with so many records can
// come into the proposal beside what it holds. Anything fits an empty one.
func (d *proposal) fits(bytes int, records int) bool {
	return d.batches == 0 ||
		d.size()+bytes <= record.EntryTargetBytes && uint64(d.count)+uint64(records) <= math.MaxUint32
}

// add copies a batch into the proposal and gives the copy its place in the log.
func (d *proposal) add(m record.BatchMeta, b record.Batch, leaderEpoch int32) {
	at := len(d.buffer)
	d.buffer = append(d.buffer, b...)
	placed := record.Batch(d.buffer[at:])
	placed.SetBaseOffset(d.first + record.Offset(d.count))
	placed.SetLeaderEpoch(leaderEpoch)
	d.metas = record.AppendMeta(d.metas, m)
	d.count += m.Count
	d.batches++
}

// encode completes the entry and returns its bytes, which alias the buffer.
func (d *proposal) encode(time int64, chain uint64) []byte {
	head := entryHeaderBytes + len(d.metas)
	if head > d.room {
		d.makeRoom(head)
	}
	begin := d.room - head
	dst := record.AppendEntryHeader(d.buffer[begin:begin], record.Entry{
		Kind: d.kind, Time: time, Chain: chain, First: d.first, Count: d.count, Batches: d.batches,
	})
	copy(d.buffer[begin+len(dst):], d.metas)
	return d.buffer[begin:]
}

func (d *proposal) makeRoom(room int) {
	body := d.buffer[d.room:]
	grown := make([]byte, 2*room, 2*room+max(len(body), record.EntryTargetBytes))
	d.room = 2 * room
	d.buffer = append(grown, body...)
}
