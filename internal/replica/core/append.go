package core

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// Append takes a request to append or to run a command. Its answer comes out
// of Advance once what it rests on has committed.
func (c *Core) Append(r *Request) {
	switch {
	case c.failed != nil:
		c.answer(r.Done, sequence.Answer{Refusal: c.failed})
	case c.closed || len(c.waiting[Drained]) > 0:
		c.answer(r.Done, sequence.Answer{Refusal: record.Refuse(record.ShuttingDown, "this node is shutting down")})
	case !c.Leads():
		c.answer(r.Done, sequence.Answer{Refusal: c.notLeader()})
	case c.queued > maxQueuedBytes:
		c.answer(r.Done, sequence.Answer{Refusal: record.Refuse(record.Busy, "%d bytes of appends wait for this log", c.queued)})
	default:
		c.woken()
		c.stir()
		c.queue = append(c.queue, r)
		c.queued += r.bytes()
	}
}
