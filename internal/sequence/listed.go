package sequence

import "strandline.dev/internal/record"

// OpenSession is one open session, as a list shows it.
type OpenSession struct {
	ID       record.SessionID
	Implicit bool // opened by its first batch, as Kafka's are
	Epoch    record.Epoch
	Next     record.Sequence // in Epoch
	Lease    int64           // ms
	Silent   int64           // ms since the newest sign of life
	Bytes    int             // of memory, with what it remembers
}

// Open returns the open sessions with ids above one, by id, most at the most, as the committed entries have
// them, and reports whether there are more. It knows how long they have been silent while it leads.
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
