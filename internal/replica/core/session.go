package core

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// KeepSession renews a session's lease. That it is kept rests on still being the
// leader: one that slept while another was elected knows of no end that the other
// decides.
func (c *Core) KeepSession(id record.SessionID, done func(sequence.Answer)) {
	if r := c.notServing(); r != nil {
		c.answer(done, sequence.Answer{Refusal: r})
		return
	}
	a := c.sequencer.KeepAlive(id, c.now.Monotonic)
	if a.Refusal != nil || a.RestsOn != 0 {
		c.deferAnswers([]sequence.Answer{a}, []*Request{{Done: done}}, sequence.Proposal{})
		return
	}
	c.confirm.addLeading(func(r *record.Refusal) {
		if r == nil {
			r = c.notServing()
		}
		c.answer(done, sequence.Answer{Refusal: r})
	})
}

// Resolution is what Resolve found.
type Resolution struct {
	sequence.Outcome
	Epoch record.Epoch // the session's, now
}

// Resolve tells what became of a record of a session, as of now: the answer
// rests on still being the leader.
func (c *Core) Resolve(id record.SessionID, epoch record.Epoch, number record.Sequence, done func(Resolution, *record.Refusal)) {
	if r := c.notServing(); r != nil {
		done(Resolution{}, r)
		return
	}
	c.confirm.addLeading(func(r *record.Refusal) {
		if r == nil {
			r = c.notServing()
		}
		if r != nil {
			done(Resolution{}, r)
			return
		}
		done(Resolution{c.sequencer.Resolve(id, epoch, number), c.sequencer.Epoch(id)}, nil)
	})
}

// notServing is why this replica cannot answer for the log, or nil.
func (c *Core) notServing() *record.Refusal {
	switch {
	case c.failed != nil:
		return c.failed
	case !c.leaderReady:
		return c.notLeader()
	}
	return nil
}
