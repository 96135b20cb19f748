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
	case c.closed || len(c.draining) > 0:
		c.answer(r.Done, sequence.Answer{Refusal: record.Refuse(record.ShuttingDown, "this node is shutting down")})
	case !c.leading:
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

// propose gives the queue to the sequencer and what it accepts to Raft: one entry
// for all that waits, or a few where it does not fit or commands are among it.
func (c *Core) propose() {
	for c.leaderReady && len(c.queue) > 0 && c.mayPropose() {
		decided, taken, bytes := c.decide()
		dropped := c.send(c.sequencer.Seal(c.now.Unix), bytes, timing{oldest: taken[0].Arrived, proposed: c.now.Nano})
		c.deferAnswers(decided, taken, dropped)
		clear(decided)
		clear(taken)
		if len(c.queue) == 0 && cap(taken) <= maxSpareQueue {
			c.queue = taken[:0]
		}
		if dropped.Number != 0 {
			return // Raft takes nothing now; the next tick or message tries again
		}
	}
}

// maxSpareQueue bounds the empty queue whose memory is used again, in requests.
const maxSpareQueue = 1024

// decide drains the queue into the sequencer until an entry is full.
func (c *Core) decide() (decided []sequence.Answer, taken []*Request, bytes int) {
	n := 0
	for n < len(c.queue) && bytes < record.EntryTargetBytes {
		r := c.queue[n]
		n++
		bytes += r.bytes()
		if r.expiry {
			c.expiring--
		}
		switch {
		case r.Append != nil:
			c.decided = append(c.decided, c.sequencer.Append(r.Append))
		case r.Command.Kind == record.ExpireSession:
			c.decided = append(c.decided, c.sequencer.Expire(r.Command.Session))
		default:
			c.decided = append(c.decided, c.sequencer.Command(*r.Command))
		}
	}
	c.queued -= bytes
	taken = c.queue[:n]
	c.queue = c.queue[n:]
	if len(c.queue) == 0 {
		c.queue = nil
	}
	decided = c.decided
	c.decided = c.decided[:0]
	return decided, taken, bytes
}

// send proposes what was made of a drain of so many bytes. It returns the first one
// that Raft did not take, if any; that one and those after it are undone in the
// sequencer.
func (c *Core) send(made []sequence.Proposal, bytes int, t timing) (dropped sequence.Proposal) {
	c.drains++
	for i, d := range made {
		if err := c.raft.Propose(d.Data); err != nil {
			c.logger.Debug("raft dropped a proposal", "error", err)
			c.sequencer.Drop(d.Number)
			return d
		}
		p := proposal{number: d.Number, drain: c.drains, crc: d.CRC, timing: t}
		if i+1 == len(made) {
			p.bytes = bytes
		}
		c.proposals = append(c.proposals, p)
		c.unplaced++
	}
	return sequence.Proposal{}
}

// deferAnswers puts each answer where it waits for what it rests on. Requests that
// rest on a dropped proposal go back to the head of the queue, in order; but for one
// of which Raft has taken a part, in proposals before that one.
func (c *Core) deferAnswers(decided []sequence.Answer, taken []*Request, dropped sequence.Proposal) {
	var again []*Request
	for i, a := range decided {
		done := taken[i].Done
		c.notice(taken[i], a)
		switch {
		case dropped.Number != 0 && a.RestsOn >= dropped.Number && a.Refusal == nil && a.First.Count > 0 && a.First.First < dropped.First:
			// Decided again it would append that part twice, and refused it would
			// count as not done.
			c.answer(done, sequence.Answer{Refusal: record.Refuse(record.OutcomeUnknown, "only a part of the request was proposed; it may be in the log")})
		case dropped.Number != 0 && a.RestsOn >= dropped.Number:
			again = append(again, taken[i])
			c.queued += taken[i].bytes()
			if taken[i].expiry {
				c.expiring++
			}
		case done == nil:
		case a.RestsOn != 0 && c.wait(a.RestsOn, Answered{done, a}):
		case a.Refusal != nil:
			// It rests on committed state only, but another leader may have
			// gone further by now.
			c.confirm.addLeading(func(r *record.Refusal) {
				if r != nil {
					a.Refusal = r
				}
				c.answer(done, a)
			})
		default:
			c.answer(done, a)
		}
	}
	if len(again) > 0 {
		c.queue = append(again, c.queue...)
	}
}

// wait lets an answer wait for a proposal; it reports false if that one has
// committed already.
func (c *Core) wait(number uint64, a Answered) bool {
	for i := len(c.proposals) - 1; i >= 0; i-- {
		if f := &c.proposals[i]; f.number == number {
			f.answers = append(f.answers, a)
			return true
		}
	}
	return false
}
