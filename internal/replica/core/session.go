package core

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// KeepSession renews a session's lease.
func (q *reads) KeepSession(id record.SessionID, done func(sequence.Answer)) {
	q.keep(func() sequence.Answer { return q.proposer.sequencer.KeepSession(id, q.round.now.Monotonic) }, done)
}

// OpenSessions returns open sessions with ids above after, see sequence.Sequencer.Open.
func (q *reads) OpenSessions(after record.SessionID, most int) (open []sequence.OpenSession, more bool) {
	return q.proposer.sequencer.Open(after, most)
}

// KeepHold renews a hold's lease.
func (q *reads) KeepHold(name string, done func(sequence.Answer)) {
	q.keep(func() sequence.Answer { return q.proposer.sequencer.KeepHold(name) }, done)
}

// keep renews a lease. It confirms that this replica still leads: a leader that was paused while
// another one was elected does not know about sessions that the other one ended.
func (q *reads) keep(renew func() sequence.Answer, done func(sequence.Answer)) {
	if r := q.notServing(); r != nil {
		q.round.answer(done, sequence.Answer{Refusal: r})
		return
	}
	a := renew()
	if a.Refusal != nil || a.RestsOn != 0 {
		q.proposer.deferAnswers([]sequence.Answer{a}, []*Request{{Done: done}}, sequence.Proposal{})
		return
	}
	q.confirm.addLeading(func(r *record.Refusal) {
		if r == nil {
			r = q.notServing()
		}
		q.round.answer(done, sequence.Answer{Refusal: r})
	})
}

// Resolution is the result of Resolve.
type Resolution struct {
	sequence.Outcome
	Epoch record.Epoch // current epoch of the session
}

// Resolve returns the current outcome of a record of a session. It confirms that this replica
// still leads.
func (q *reads) Resolve(id record.SessionID, epoch record.Epoch, number record.Sequence, done func(Resolution, *record.Refusal)) {
	if r := q.notServing(); r != nil {
		done(Resolution{}, r)
		return
	}
	q.confirm.addLeading(func(r *record.Refusal) {
		if r == nil {
			r = q.notServing()
		}
		if r != nil {
			done(Resolution{}, r)
			return
		}
		done(Resolution{q.proposer.sequencer.Resolve(id, epoch, number), q.proposer.sequencer.Epoch(id)}, nil)
	})
}

// notServing returns why this replica cannot answer for the log, or nil.
func (q *reads) notServing() *record.Refusal {
	switch {
	case q.group.failed != nil:
		return q.group.failed
	case q.group.role != leaderReady:
		return q.group.notLeader()
	}
	return nil
}
