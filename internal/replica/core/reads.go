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
