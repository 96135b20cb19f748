package sequence

import (
	"math"

	"strandline.dev/internal/record"
)

// pipeline is the proposals in flight, on which decisions rest.
//
//	table          proposals
//	... entries ...|proposed|proposed| closed | open |
//	               ^        ^        ^               ^
//	        table.End    Committed Propose       log.end
//	                     takes one  turns all
//	                     from here  to proposed
//
// A proposal is removed only from the front, when it commits, or from the back, when Raft refuses
// it.
type pipeline struct {
	overlay
	resources
	covering
	principals  principals
	leading     bool
	leaderEpoch int32

	// chain and time are the values after the newest entry proposed to Raft.
	chain uint64
	time  int64

	proposals queue[*proposal] // oldest first
	proposed  int              // how many of proposals, from the front, Raft has
	open      *proposal        // the newest of proposals if it accepts more batches, else nil
	numbered  uint64           // number of the newest proposal ever

	leases leases
	recent recentKeys

	// Memory to be reused; forgetMemory releases it.
	memory proposalMemory
	out    []Proposal // returned by Propose
}

// End returns the offset after the last record, including those in flight.
func (s *pipeline) End() record.Offset {
	if !s.leading {
		return s.table.log.end
	}
	return s.log.end
}

// InFlight returns the number of entries that were proposed and have neither committed nor been
// dropped.
func (s *pipeline) InFlight() int { return s.proposed }

// openFor makes sure that the open proposal has room for the given bytes and records.
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

// propose adds a proposal of the command c.
func (s *pipeline) propose(c record.Command) *proposal {
	s.open = nil
	d := s.begin(record.EntryCommand)
	d.buffer = record.AppendCommand(d.buffer, c)
	return d
}

// newest returns the number of the newest proposal, on which a refusal rests, or 0 if nothing is
// in flight.
func (s *pipeline) newest() uint64 {
	if n := s.proposals.len(); n > 0 {
		return (*s.proposals.at(n - 1)).number
	}
	return 0
}

// refuse returns an answer with a refusal, which rests on everything in flight.
func (s *pipeline) refuse(r *record.Refusal) Answer {
	return Answer{Refusal: r, RestsOn: s.newest()}
}

// unchanged returns the answer to a command that has no effect, because its effect is there
// already or in flight.
func (s *pipeline) unchanged() Answer { return Answer{Duplicate: true, RestsOn: s.newest()} }

// Propose closes the open proposal and completes all proposals made since the last call, in order.
// Their time is unixMs, or that of the previous entry if it is later. The slice is valid until
// the next call.
func (s *pipeline) Propose(unixMs int64) []Proposal {
	s.memory.reclaim()
	s.open = nil
	s.out = s.out[:0]
	for ; s.proposed < s.proposals.len(); s.proposed++ {
		d := *s.proposals.at(s.proposed)
		d.proposed, d.chain, d.time = true, s.chain, s.time
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

// Drop undoes the proposal with the given number and all later ones, because Raft did not accept
// it. Decisions are then as if they had never been made. Their numbers are not reused, so nothing
// can come to rest on another proposal.
func (s *pipeline) Drop(number uint64) {
	for n := s.proposals.len(); n > 0 && (*s.proposals.at(n - 1)).number >= number; n-- {
		s.open = nil
		s.undo(s.proposals.popBack())
	}
	s.proposed = min(s.proposed, s.proposals.len())
}

// undo reverts the newest proposal. Decisions are then as if it had never been made.
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
	if s.recent.kept {
		s.recent.undo(s.log.end)
	}
	s.detach(d)
	if d.proposed {
		s.chain, s.time = d.chain, d.time
	}
	s.memory.giveBack(d)
}

// retire removes the oldest proposal from the overlay once the table has it.
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
				s.principals.takes(c.view.id, -bytesOfSession) // the table has it
			}
		}
		s.release(c.view)
	}
	if d.before.writerTerm != s.table.log.writerTerm {
		s.leases.renewWriter() // the holder learns of the grant only now
	}
	s.taken(d)
	s.memory.giveBack(d)
}

// restart resets the overlay to the table.
func (s *pipeline) restart() {
	s.log, s.chain, s.time = s.table.log, s.table.chain, s.table.time
	s.covering = covering{folded: s.table, projected: &s.log, leads: s.leading}
	s.principals.start(s.table)
	s.recent.forget()
}

// Release releases the memory kept for later proposals.
func (s *pipeline) Release() {
	s.memory.reclaim()
	s.forgetMemory()
}

// forgetMemory releases the memory kept for later proposals, so that an idle log keeps none. Data
// that Propose returned stays valid.
func (s *pipeline) forgetMemory() {
	s.memory, s.spareViews, s.out = proposalMemory{}, nil, nil
}

// Sizes of the parts as package record encodes them.
var (
	entryHeaderBytes = len(record.AppendEntryHeader(nil, record.Entry{}))
	batchMetaBytes   = len(record.AppendMeta(nil, record.BatchMeta{}))
)

// firstRoomBytes is the initial room for header and metadata before a body: enough for about 250
// batches. A proposal with more batches makes room once, and its buffer, which is reused, keeps
// it.
const firstRoomBytes = 12 << 10

// proposal is an entry in progress: open, then closed, then proposed, and finally retired when it
// has committed, or undone.
//
// In an entry the metadata precedes the batches, and neither its size nor the time and chain
// value of the header are known before Propose. So batches are added behind free
// room, and Propose writes header and metadata right-aligned into it; no batch is copied twice.
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
	hashed  []byte // contents of earlier batches, see record.HashedBatch

	buffer []byte // removed when the encoded bytes are no longer needed
	room   int
	metas  []byte

	before  logState // the log before this proposal
	changes []change // of sessions, in order

	proposed bool
	crc      uint32 // of the proposed entry
	chain    uint64 // before this entry; if proposed
	time     int64  // of the entry before; if proposed
}

// size returns the size of the encoded entry.
func (d *proposal) size() int {
	return entryHeaderBytes + len(d.metas) + len(d.buffer) - d.room + len(d.hashed)
}

// fits reports whether bytes of batches and metadata with the given number of records can be
// added to the proposal within about target bytes. An empty proposal accepts anything.
func (d *proposal) fits(bytes, records, target int) bool {
	return d.batches == 0 ||
		d.size()+bytes <= target && uint64(d.count)+uint64(records) <= math.MaxUint32
}

// add copies a batch into the proposal and sets the place of the copy in the log.
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

// proposalMemory is memory of earlier proposals to be reused.
type proposalMemory struct {
	proposals []*proposal
	buffers   []buffer
	// lent are the buffers behind the Data that the last Propose handed out.
	lent []buffer
	used bool // since the last tick
}

type buffer struct {
	bytes []byte // of length room
	room  int
}

const (
	// maxSpareBuffers is one buffer for the open proposal and some for those that Raft has
	// together.
	maxSpareBuffers = 4
	// maxSpareBytes permits the buffer of an ordinary entry to be reused, and releases an unusually
	// large one.
	maxSpareBytes = 2 * record.EntryTargetBytes
)

func (m *proposalMemory) take() *proposal {
	m.used = true
	var d *proposal
	if n := len(m.proposals); n > 0 {
		d, m.proposals = m.proposals[n-1], m.proposals[:n-1]
	} else {
		d = new(proposal)
	}
	b := buffer{room: firstRoomBytes}
	if n := len(m.buffers); n > 0 {
		b, m.buffers = m.buffers[n-1], m.buffers[:n-1]
	} else {
		b.bytes = make([]byte, firstRoomBytes, 2*firstRoomBytes)
	}
	d.buffer, d.room = b.bytes, b.room
	return d
}

func (m *proposalMemory) giveBack(d *proposal) {
	if d.buffer != nil {
		m.keep(d.takeBuffer())
	}
	clear(d.changes)
	*d = proposal{metas: d.metas[:0], changes: d.changes[:0], hashed: d.hashed[:0]}
	m.proposals = append(m.proposals, d)
}

// lend takes the buffer of a proposal that Raft has, to be reused after reclaim.
func (m *proposalMemory) lend(d *proposal) { m.lent = append(m.lent, d.takeBuffer()) }

// reclaim ends the validity of the bytes that the last Propose returned.
func (m *proposalMemory) reclaim() {
	for i, b := range m.lent {
		m.keep(b)
		m.lent[i] = buffer{}
	}
	m.lent = m.lent[:0]
}

func (m *proposalMemory) keep(b buffer) {
	if len(m.buffers) < maxSpareBuffers && cap(b.bytes) <= maxSpareBytes {
		m.buffers = append(m.buffers, b)
	}
}

func (d *proposal) takeBuffer() buffer {
	b := buffer{bytes: d.buffer[:d.room], room: d.room}
	d.buffer = nil
	return b
}
