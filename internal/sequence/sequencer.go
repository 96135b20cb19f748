package sequence

import "strandline.dev/internal/record"

// Sequencer decides appends and commands for the leader of a log. It is the
// table of what has committed, plus the proposals in flight and what they change.
//
//	table          proposals
//	... entries ...| sealed | sealed | closed | open |
//	               ^        ^        ^               ^
//	        table.End    Committed  Seal         log.end
//	                     takes one  turns all
//	                     from here  to sealed
//
// A proposal is only ever taken from the front, when it commits, or from the
// back, when Raft refuses it. While it does not lead there are no proposals, and the
// sequencer is its table.
//
// It has one owner and is not safe for concurrent use.
type Sequencer struct {
	table *Table

	leading     bool
	room        Room
	left        MemoryLeft
	leaderEpoch int32

	// log, chain and time are those after the newest proposal; of chain and time,
	// after the newest sealed one.
	log   logState
	chain uint64
	time  int64
	views map[record.SessionID]*view

	proposals queue[*proposal] // oldest first
	sealed    int              // how many of proposals, from the front, are sealed
	open      *proposal        // the newest of proposals, if it takes more batches; else nil
	numbered  uint64           // number of the newest proposal ever

	leases leases

	// Memory that is used again; forgetMemory drops it.
	memory     proposalMemory
	spareViews []*view
	out        []Proposal // returned by Seal
}

// New returns a sequencer that does not lead. The table is its own from now on:
// others may read it between calls, and only Committed changes it.
func New(t *Table) *Sequencer {
	return &Sequencer{table: t, views: make(map[record.SessionID]*view)}
}

// StartLeading begins to decide, with nothing in flight and every lease started
// anew. It is called when an entry of the leader's own term has committed and
// everything up to it was passed to Committed. leaderEpoch is the Raft term,
// which is written into batches; now is a monotonic time in ms.
func (s *Sequencer) StartLeading(leaderEpoch int32, now int64) {
	s.StopLeading()
	s.leading, s.leaderEpoch = true, leaderEpoch
	s.restart()
	s.leases.start(s.table, now)
}

// StopLeading forgets everything in flight. Entries of it may commit all the
// same; they come back as anybody's through Committed.
func (s *Sequencer) StopLeading() {
	s.leading = false
	for s.proposals.len() > 0 {
		s.undo(s.proposals.popBack())
	}
	s.open, s.sealed = nil, 0
	s.leases = leases{}
	s.forgetMemory()
}

// Release gives back the memory kept for proposals to come.
func (s *Sequencer) Release() {
	s.memory.reclaim()
	s.forgetMemory()
}

// forgetMemory releases what was kept for proposals to come, so that an idle
// log keeps nothing. Data that Seal handed out stays as it is.
func (s *Sequencer) forgetMemory() {
	s.memory, s.spareViews, s.out = proposalMemory{}, nil, nil
}

// restart begins the overlay at the table.
func (s *Sequencer) restart() {
	s.log, s.chain, s.time = s.table.log, s.table.chain, s.table.time
}

// End is the offset after the last record, of those in flight too.
func (s *Sequencer) End() record.Offset {
	if !s.leading {
		return s.table.log.end
	}
	return s.log.end
}

// InFlight counts the proposals that were sealed and have neither committed nor
// been dropped.
func (s *Sequencer) InFlight() int { return s.sealed }

// Seal closes the open proposal and completes all that were made since the last
// call, in order, with unixMs as their time, or that of the entry before if it
// is later. The slice is valid until the next call.
func (s *Sequencer) Seal(unixMs int64) []Proposal {
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
func (s *Sequencer) Drop(number uint64) {
	for n := s.proposals.len(); n > 0 && (*s.proposals.at(n - 1)).number >= number; n-- {
		s.open = nil
		s.undo(s.proposals.popBack())
	}
	s.sealed = min(s.sealed, s.proposals.len())
}

// Committed folds an entry that has committed into the table, leading or not:
// data is the encoded record.Entry, crc its verified checksum. An
// entry that is not the oldest proposal is another leader's, and proof that what
// is in flight here can no longer commit: it then stops leading.
// The error is a *FoldError and means that this replica must stop.
func (s *Sequencer) Committed(data []byte, crc uint32) error {
	if s.proposals.len() > 0 {
		if oldest := *s.proposals.at(0); !oldest.sealed || oldest.crc != crc {
			s.StopLeading()
		}
	}
	if err := s.table.Fold(data, crc); err != nil {
		return err
	}
	switch {
	case s.proposals.len() > 0:
		s.retire(s.proposals.popFront())
		s.sealed--
	case s.leading:
		s.restart()
		s.leases.start(s.table, s.leases.last)
	}
	return nil
}

// Resolve returns the outcome of a sequence, in flight too. Everything but
// Pending rests on committed entries alone.
func (s *Sequencer) Resolve(id record.SessionID, epoch record.Epoch, sequence record.Sequence) Outcome {
	outcome := s.table.Resolve(id, epoch, sequence)
	v := s.views[id]
	if v == nil {
		return outcome
	}
	if s.table.sessions.get(id) == nil && epoch >= v.began() {
		outcome.State = NotNow // the session itself is in flight
	}
	if outcome.State == NotNow && v.find(epoch, sequence) != nil {
		outcome.State = Pending
	}
	return outcome
}

// newest is the number of the newest proposal, which a refusal rests on; 0 with
// nothing in flight.
func (s *Sequencer) newest() uint64 {
	if n := s.proposals.len(); n > 0 {
		return (*s.proposals.at(n - 1)).number
	}
	return 0
}

// begin adds an empty proposal.
func (s *Sequencer) begin(kind record.EntryKind) *proposal {
	d := s.memory.take()
	s.numbered++
	d.number, d.kind, d.first, d.before = s.numbered, kind, s.log.end, s.log
	s.proposals.pushBack(d)
	return d
}

// refuse answers with a refusal, which rests on everything in flight.
func (s *Sequencer) refuse(r *record.Refusal) Answer {
	return Answer{Refusal: r, RestsOn: s.newest()}
}

func notLeader() *record.Refusal {
	return record.Refuse(record.NotLeader, "this replica does not lead the log")
}
