package core

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// reads are operations that rely on this replica's knowledge of the leader: linearizable reads,
// and queries of sessions.
type reads struct {
	proposer *proposer
	group    *group
	round    *round
	confirm  *confirmations
	// early holds the questions that arrived while this replica was elected and not ready: the newest of
	// each other replica.
	early []*raftpb.Message
}

// Confirm calls done with nil once this replica has everything that was committed anywhere when
// Confirm was called, or with a refusal.
func (q *reads) Confirm(done func(*record.Refusal)) {
	q.group.stir()
	// It is delivered with the answers, once the state on which it rests is published.
	answer := func(r *record.Refusal) {
		q.round.answer(func(sequence.Answer) { done(r) }, sequence.Answer{})
	}
	switch {
	case q.group.failed != nil:
		answer(q.group.failed)
	case q.group.leader == 0:
		answer(q.group.notLeader())
	default:
		q.confirm.add(answer)
	}
}

// tooEarly keeps a question of another replica until this leader knows what has committed. Raft does
// the same unless the leader is the only voter: Raft lets such a leader answer with the commit index
// that it started with, although it may have acknowledged entries beyond that index before.
func (q *reads) tooEarly(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgReadIndex || q.group.role != elected {
		return false
	}
	q.early = slices.DeleteFunc(q.early, func(o *raftpb.Message) bool { return o.GetFrom() == m.GetFrom() })
	if q.group.isMember(m.GetFrom()) {
		q.early = append(q.early, m)
	}
	return true
}

// askConfirmation starts a ReadIndex if a query waits and none is in progress. It also starts those
// that other replicas asked for too early.
func (q *reads) askConfirmation() {
	if q.group.role == leaderReady {
		for _, m := range q.early {
			_ = q.group.raft.Step(m) // a lost question is asked again
		}
		q.early = nil
	}
	if len(q.confirm.waiting) == 0 || len(q.confirm.asked) > 0 || q.group.leader == 0 || q.group.Leads() && q.group.role != leaderReady {
		return // a leader that is not ready does not know what has committed
	}
	q.confirm.asked, q.confirm.waiting = q.confirm.waiting, nil
	if q.confirm.number == 0 {
		// Differ from the numbers of an earlier process, whose queries may still be in flight.
		q.confirm.number = uint64(q.round.now.Unix) << 16
	}
	q.confirm.number++
	q.confirm.ticks = 0
	q.confirm.sent = q.round.now.Monotonic + q.round.now.Suspended
	// The leader distinguishes queries by these bytes only.
	q.group.raft.ReadIndex(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, q.confirm.number), q.group.id))
}

// KeepSession renews a session's lease.
func (q *reads) KeepSession(id record.SessionID, done func(sequence.Answer)) {
	q.keep(func() sequence.Answer { return q.proposer.sequencer.KeepSession(id, q.round.now.lease()) }, done)
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
