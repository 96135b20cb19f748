package sequence

import "strandline.dev/internal/record"

// Producer is a session that was opened by its first batch, as Kafka's are.
type Producer struct {
	ID    record.SessionID
	Epoch record.Epoch
	Next  record.Sequence // in Epoch
}

// Producers are the open ones with the lowest ids, most at the most.
func (t *Table) Producers(most int) []Producer {
	var all []Producer
	t.sessions.byID.Scan(func(id record.SessionID, s *session) bool {
		if s.open && s.implicit && len(all) < most {
			all = append(all, Producer{ID: id, Epoch: s.epoch, Next: s.next})
		}
		return len(all) < most
	})
	return all
}
