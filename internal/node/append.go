package node

import (
	"strandline.dev/internal/record"
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
	h, refusal := n.serving(log)
	if refusal == nil {
		refusal = refuseSystem(c, log)
	}
	if refusal == nil {
		refusal = h.roomFor(a)
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

// roomFor refuses what a memory log has no offsets reserved for.
func (h *hosted) roomFor(a *sequence.Append) *record.Refusal {
	if h.config.Load().Durability != Memory {
		return nil
	}
	_, end, _ := h.replica.Tail().Bounds()
	if int64(end)+memoryMargin+int64(a.Records) > h.ceiling.Load() {
		return record.Refuse(record.Busy, "log %q waits for offsets to be reserved", h.name)
	}
	return nil
}

// memoryMargin covers what is in flight and not in the readable end yet.
const memoryMargin = 1 << 28
