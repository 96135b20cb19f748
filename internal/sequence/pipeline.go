package sequence

import (
	"math"

	"strandline.dev/internal/record"
)

// pipeline is the proposals in flight, and what decisions rest on.
//
//	table          proposals
//	... entries ...| sealed | sealed | closed | open |
//	               ^        ^        ^               ^
//	        table.End    Committed  Seal         log.end
//	                     takes one  turns all
//	                     from here  to sealed
//
// A proposal is only ever taken from the front, when it commits, or from the
// back, when Raft refuses it.
type pipeline struct {
	overlay
	resources
	covering
	owners      owners
	leading     bool
	leaderEpoch int32

	// chain and time are those after the newest sealed proposal.
	chain uint64
	time  int64

	proposals queue[*proposal] // oldest first
	sealed    int              // how many of proposals, from the front, are sealed
	open      *proposal        // the newest of proposals, if it takes more batches; else nil
	numbered  uint64           // number of the newest proposal ever

	leases leases

	// Memory that is used again; forgetMemory drops it.
	memory proposalMemory
	out    []Proposal // returned by Seal
}

// End is the offset after the last record, of those in flight too.
func (s *pipeline) End() record.Offset {
	if !s.leading {
		return s.table.log.end
	}
	return s.log.end
}

// InFlight counts the proposals that were sealed and have neither committed nor
// been dropped.
func (s *pipeline) InFlight() int { return s.sealed }

// openFor makes the open proposal one that the given bytes and records fit in.
func (s *pipeline) openFor(bytes, records int) {
	if s.open == nil || s.renew || !s.open.fits(bytes, records, s.table.limits.EntryTarget) {
		s.open = s.begin(record.EntryBatches)
		s.attach(s.open, bytes)
	}
}

// begin adds an empty proposal.
func (s *pipeline) begin(kind record.EntryKind) *proposal {
	d := s.memory.take()
	s.numbered++
	d.number, d.kind, d.first, d.before = s.numbered, kind, s.log.end, s.log
	s.proposals.pushBack(d)
	return d
}

// propose makes c a proposal.
func (s *pipeline) propose(c record.Command) *proposal {
	s.open = nil
	d := s.begin(record.EntryCommand)
	d.buffer = record.AppendCommand(d.buffer, c)
	return d
}

// newest is the number of the newest proposal, which a refusal rests on; 0 with
// nothing in flight.
func (s *pipeline) newest() uint64 {
	if n := s.proposals.len(); n > 0 {
		return (*s.proposals.at(n - 1)).number
	}
	return 0
}

// refuse answers with a refusal, which rests on everything in flight.
func (s *pipeline) refuse(r *record.Refusal) Answer {
	return Answer{Refusal: r, RestsOn: s.newest()}
}

// unchanged answers a command that finds its work done, perhaps in flight.
func (s *pipeline) unchanged() Answer { return Answer{Duplicate: true, RestsOn: s.newest()} }

// Seal closes the open proposal and completes all that were made since the last
// call, in order, with unixMs as their time, or that of the entry before if it
// is later. The slice is valid until the next call.
func (s *pipeline) Seal(unixMs int64) []Proposal {
	s.memory.reclaim()
	s.open = nil
	s.out = s.out[:0]
	for ; s.sealed < s.proposals.len(); s.sealed++ {
		d := *s.proposals.at(s.sealed)
		d.sealed, d.chain, d.time = true, s.chain, s.time
		s.time = max(s.time, unixMs)
		data := d.encode(s.time, s.chain)
		d.crc = record.Checksum(data)
		s.chain = record.NextChain(s.chain, d.crc)
		s.memory.lend(d)
		s.out = append(s.out, Proposal{
			Number: d.number, Data: data, CRC: d.crc, First: d.first, Count: d.count, Time: s.time,
		})
	}
	return s.out
}

// Drop undoes the proposal of that number and every later one, because Raft did
// not take it. Every decision is then as if they had never been made. Their
// numbers are not used again, so nothing can come to rest on another proposal.
func (s *pipeline) Drop(number uint64) {
	for n := s.proposals.len(); n > 0 && (*s.proposals.at(n - 1)).number >= number; n-- {
		s.open = nil
		s.undo(s.proposals.popBack())
	}
	s.sealed = min(s.sealed, s.proposals.len())
}

// undo takes the newest proposal back: afterwards every decision is as if it had
// never been.
func (s *pipeline) undo(d *proposal) {
	for i := len(d.changes) - 1; i >= 0; i-- {
		c := d.changes[i]
		s.turnBack(&c)
		c.view.standing = c.before
		if c.span {
			c.view.spans.popBack()
		}
		if c.past {
			c.view.past.popBack()
		}
		s.release(c.view)
	}
	s.log = d.before
	s.detach(d)
	if d.sealed {
		s.chain, s.time = d.chain, d.time
	}
	s.memory.giveBack(d)
}

// retire takes the oldest proposal out of the overlay when the table has it.
func (s *pipeline) retire(d *proposal) {
	for _, c := range d.changes {
		if c.span {
			c.view.spans.popFront()
		}
		if c.past {
			c.view.past.popFront()
		}
		if c.turns {
			s.leases.follow(s.table, c.view.id)
			if !c.before.open {
				s.owners.takes(c.view.id, -bytesOfSession) // the table has it
			}
		}
		s.release(c.view)
	}
	s.taken(d)
	s.memory.giveBack(d)
}

// restart begins the overlay at the table.
func (s *pipeline) restart() {
	s.log, s.chain, s.time = s.table.log, s.table.chain, s.table.time
	s.covering = covering{folded: s.table, projected: &s.log, leads: s.leading}
	s.owners.start(s.table)
}

// Release gives back the memory kept for proposals to come.
func (s *pipeline) Release() {
	s.memory.reclaim()
	s.forgetMemory()
}

// forgetMemory releases what was kept for proposals to come, so that an idle
// log keeps nothing. Data that Seal handed out stays as it is.
func (s *pipeline) forgetMemory() {
	s.memory, s.spareViews, s.out = proposalMemory{}, nil, nil
}

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
//	buffer:  |....free....| header | metadata | batch | batch | ... contents
//	                      ^                   ^
//	                      entry begins        room
type proposal struct {
	number  uint64
	kind    record.EntryKind
	first   record.Offset
	count   uint32 // records
	batches int
	begins  bool   // the log's digest begins with it
	hashed  []byte // of batches before, see record.HashedBatch

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
	return entryHeaderBytes + len(d.metas) + len(d.buffer) - d.room + len(d.hashed)
}

// fits reports whether bytes of batches and metadata with so many records can
// come into the proposal of about target bytes beside what it holds. Anything fits an empty one.
func (d *proposal) fits(bytes, records, target int) bool {
	return d.batches == 0 ||
		d.size()+bytes <= target && uint64(d.count)+uint64(records) <= math.MaxUint32
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
		Begins: d.begins, Hashed: d.hashed,
	})
	copy(d.buffer[begin+len(dst):], d.metas)
	d.buffer = append(d.buffer, d.hashed...)
	return d.buffer[begin:]
}

func (d *proposal) makeRoom(room int) {
	body := d.buffer[d.room:]
	grown := make([]byte, 2*room, 2*room+max(len(body), record.EntryTargetBytes))
	d.room = 2 * room
	d.buffer = append(grown, body...)
}
