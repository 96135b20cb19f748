package sequence

import "strandline.dev/internal/record"

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
