package sequence

import "strandline.dev/internal/record"

// Sequencer decides appends and commands for the leader of a log. It is the
// table of what has committed, plus the proposals in flight and what they change.
// While it does not lead there are no proposals, and the sequencer is its table.
//
// It has one owner and is not safe for concurrent use.
type Sequencer struct {
	*pipeline // what is in flight
	appends
	commands
	expiry
}

// New returns a sequencer that does not lead. The table is its own from now on:
// others may read it between calls, and only Committed changes it.
func New(t *Table) *Sequencer {
	p := &pipeline{overlay: overlay{table: t, views: make(map[record.SessionID]*view)}}
	p.covering = covering{folded: t, projected: &p.log}
	c := commands{p}
	return &Sequencer{pipeline: p, appends: appends{p}, commands: c, expiry: expiry{c}}
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

// StopLeading forgets everything in flight. Its entries may commit nevertheless;
// Committed then receives them like those of any other leader.
func (s *Sequencer) StopLeading() {
	s.leading = false
	for s.proposals.len() > 0 {
		s.undo(s.proposals.popBack())
	}
	s.open, s.sealed = nil, 0
	s.owners.stop()
	s.leases, s.covering = leases{}, covering{folded: s.table, projected: &s.log}
	s.forgetMemory()
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

func notLeader() *record.Refusal {
	return record.Refuse(record.NotLeader, "this replica does not lead the log")
}
