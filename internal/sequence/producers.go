package sequence

import (
	"cmp"
	"slices"

	"strandline.dev/internal/record"
)

// Producer is a session that was opened by its first batch, as Kafka's are.
type Producer struct {
	ID    record.SessionID
	Epoch record.Epoch
	Next  record.Sequence // in Epoch
}

// Producers are the open ones with the lowest ids, most at the most.
func (t *Table) Producers(most int) []Producer {
	var all []Producer
	for id, s := range t.sessions {
		if s.open && s.implicit {
			all = append(all, Producer{ID: id, Epoch: s.epoch, Next: s.next})
		}
	}
	slices.SortFunc(all, func(a, b Producer) int { return cmp.Compare(a.ID, b.ID) })
	return all[:min(len(all), most)]
}
