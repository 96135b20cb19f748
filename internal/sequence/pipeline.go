package sequence

import "strandline.dev/internal/record"

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
	if s.open == nil || !s.open.fits(bytes, records) {
		s.open = s.begin(record.EntryBatches)
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

// settled answers a command that finds its work done, perhaps in flight.
func (s *pipeline) settled() Answer { return Answer{Duplicate: true, RestsOn: s.newest()} }

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
		}
		s.release(c.view)
	}
	s.memory.giveBack(d)
}

// restart begins the overlay at the table.
func (s *pipeline) restart() {
	s.log, s.chain, s.time = s.table.log, s.table.chain, s.table.time
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
