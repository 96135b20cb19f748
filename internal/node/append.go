package node

import (
	"strandline.dev/internal/replica"
	"strandline.dev/internal/sequence"
)

// Append adds the records of one request to a log. The batches must have been
// checked (record.Batch.Check) and must not change until done, which is called
// exactly once, when the records are as durable as the log promises or a
// refusal is certain. It is called from the log's own goroutine, or before
// Append returns, and must not block. Appends of one goroutine to one log keep
// their order.
func (n *Node) Append(c Caller, log string, a *sequence.Append, done func(sequence.Answer)) {
	h, refusal := n.logFor(c, log)
	if refusal == nil {
		refusal = h.roomFor(a.Records)
	}
	if refusal != nil {
		done(sequence.Answer{Refusal: refusal})
		return
	}
	h.append(a, done)
}

func (h *hosted) append(a *sequence.Append, done func(sequence.Answer)) {
	h.replica.Append(&replica.Request{Append: a, Done: done})
}
