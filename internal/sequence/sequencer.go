package sequence

import "strandline.dev/internal/record"

// Sequencer decides appends and commands for the leader of a log. It consists of the table of the
// committed entries, and the proposals in flight with their changes. While it does not lead there
// are no proposals, and the sequencer equals its table.
//
// It is not safe for concurrent use.
type Sequencer struct {
	*pipeline // what is in flight
	appends
	commands
	expiry
}

// New returns a sequencer that does not lead. It takes over the table: others may read it between
// calls, and only Committed changes it.
func New(t *Table) *Sequencer {
	p := &pipeline{overlay: overlay{table: t, views: make(map[record.SessionID]*view)}}
	p.covering, p.recent.limit = covering{folded: t, projected: &p.log}, MaxRecentBytes
	c := commands{p}
	return &Sequencer{pipeline: p, appends: appends{p}, commands: c, expiry: expiry{c}}
}

// StartLeading starts to decide, with nothing in flight and a new lease for every session. It
// must be called when an entry of the leader's own term has committed and everything up to it was
// passed to Committed. leaderEpoch is the Raft term, which is written into batches; now is
// the time of leases, see Tick.
func (s *Sequencer) StartLeading(leaderEpoch int32, now int64) {
	s.StopLeading()
	s.leading, s.leaderEpoch = true, leaderEpoch
	s.restart()
	s.leases.start(s.table, now)
}

// StopLeading discards everything in flight. These entries may still commit; Committed then
// receives them like those of any other leader.
func (s *Sequencer) StopLeading() {
	s.leading = false
	s.recent.forget()
	for s.proposals.len() > 0 {
		s.undo(s.proposals.popBack())
	}
	s.open, s.proposed = nil, 0
	s.principals.stop()
	s.leases, s.covering = leases{}, covering{folded: s.table, projected: &s.log}
	s.forgetMemory()
}

// Committed folds a committed entry into the table, whether the sequencer leads or not. data is
// the encoded record.Entry, crc its verified checksum. An entry that is not the oldest proposal
// comes from another leader and proves that nothing in flight here can commit any more: the
// sequencer then stops leading. The error is a *FoldError and means that this replica must stop.
func (s *Sequencer) Committed(data []byte, crc uint32) error {
	if s.proposals.len() > 0 {
		if oldest := *s.proposals.at(0); !oldest.proposed || oldest.crc != crc {
			s.StopLeading()
		}
	}
	if err := s.table.Fold(data, crc); err != nil {
		return err
	}
	switch {
	case s.proposals.len() > 0:
		s.retire(s.proposals.popFront())
		s.proposed--
	case s.leading:
		s.restart()
		s.leases.start(s.table, s.leases.last)
	}
	return nil
}

func notLeader() *record.Refusal {
	return record.Refuse(record.NotLeader, "this replica does not lead the log")
}

// OpenSession describes one open session in a list.
type OpenSession struct {
	ID       record.SessionID
	Implicit bool // opened by its first batch, like those of Kafka's producers
	Epoch    record.Epoch
	Next     record.Sequence // in Epoch
	Lease    int64           // ms
	Silent   int64           // ms since the newest sign of life
	Bytes    int             // memory, including what it remembers
}

// Open returns at most most open sessions with ids above after, by id, according to the committed
// entries, and reports whether there are more. Silent is known only on the leader.
func (s *Sequencer) Open(after record.SessionID, most int) (open []OpenSession, more bool) {
	s.table.sessions.byID.Ascend(after+1, func(id record.SessionID, one *session) bool {
		if !one.open {
			return true
		}
		if more = len(open) == most; more {
			return false
		}
		shown := OpenSession{ID: id, Implicit: one.implicit, Epoch: one.epoch, Next: one.next, Lease: int64(one.lease), Bytes: bytesOfSession + bytesRemembered(one.remember, len(one.past))}
		if l := s.leases.byID[id]; l != nil {
			shown.Silent = s.leases.elapsed - l.renewed
		}
		open = append(open, shown)
		return true
	})
	return open, more
}
