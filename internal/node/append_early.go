package node

import (
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
)

// AppendEarly is Append that tells its caller twice, if all goes well: written
// is called at most once, when the leader has written the records and before
// anything is durable or committed. They may yet be lost, and their offsets
// given to others; no reader sees them before they are committed. done follows
// as for Append. Both may be called from any goroutine and must not block.
func (n *Node) AppendEarly(c Caller, log string, a *sequence.Append, written, done func(sequence.Answer)) {
	done = n.metrics.measuredAppend(log, a, done)
	h, refusal := n.logFor(c, log)
	if refusal == nil {
		refusal = h.admit(a)
	}
	if refusal != nil {
		done(sequence.Answer{Refusal: refusal})
		return
	}
	h.replica.Append(&core.Request{Append: a, Written: written, Done: done})
}
