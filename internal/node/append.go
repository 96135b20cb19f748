package node

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
)

// Append adds the records of one request to a log. The batches must have been
// checked (record.Batch.Check) and must not change until done, which is called
// exactly once, when the records are as durable as the log promises or a
// refusal is certain. It is called from the log's own goroutine, or before
// Append returns, and must not block. Appends of one goroutine to one log keep
// their order.
func (n *Node) Append(c Caller, log string, a *sequence.Append, done func(sequence.Answer)) {
	done = n.metrics.measuredAppend(log, a, done)
	h, refusal := n.logFor(c, log)
	if refusal == nil {
		refusal = h.admit(a)
	}
	if refusal != nil {
		done(sequence.Answer{Refusal: refusal})
		return
	}
	h.append(a, done)
}

// admit refuses what this log does not take.
func (h *hosted) admit(a *sequence.Append) *record.Refusal {
	if most := h.config.Load().MaxBatchBytes; most > 0 {
		for _, b := range a.Batches {
			if len(b) > most {
				return record.Refuse(record.TooLarge, "a batch of %d bytes, log %q takes %d at the most", len(b), h.name, most)
			}
		}
	}
	return h.roomFor(a.Records)
}

func (h *hosted) append(a *sequence.Append, done func(sequence.Answer)) {
	h.replica.Append(&core.Request{Append: a, Done: done})
}
