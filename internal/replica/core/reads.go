package core

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// reads are what rests on this replica's knowledge of who leads: linearizable reads,
// and what is asked of sessions.
type reads struct {
	proposer *proposer
	group    *group
	round    *round
	confirm  *confirmations
	// early are questions of other replicas that came while this one is elected and not ready, the newest of each.
	early []*raftpb.Message
}

// Confirm calls done with nil once this replica has everything that was
// committed anywhere when Confirm was called, or with a refusal.
func (q *reads) Confirm(done func(*record.Refusal)) {
	q.group.stir()
	// It leaves with the answers, when others see the state that it rests on.
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

// tooEarly keeps a question of another replica until this leader knows what has committed. Raft does the same
// unless the leader is the only voter: that one it lets answer by the commit index that it has started with, while
// what it has acknowledged before may lie beyond.
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

// askConfirmation starts a ReadIndex if somebody waits and none is under way, and those that others have asked for
// too early.
func (q *reads) askConfirmation() {
	if q.group.role == leaderReady {
		for _, m := range q.early {
			_ = q.group.raft.Step(m) // it would be lost as a message is, and asked for again
		}
		q.early = nil
	}
	if len(q.confirm.waiting) == 0 || len(q.confirm.asked) > 0 || q.group.leader == 0 || q.group.Leads() && q.group.role != leaderReady {
		return // before it is ready a leader does not know what has committed
	}
	q.confirm.asked, q.confirm.waiting = q.confirm.waiting, nil
	if q.confirm.number == 0 {
		// Not the numbers of the process before, whose questions may still be
		// under way.
		q.confirm.number = uint64(q.round.now.Unix) << 16
	}
	q.confirm.number++
	q.confirm.ticks = 0
	q.confirm.sent = q.round.now.Monotonic + q.round.now.Suspended
	// The leader distinguishes questions by these bytes only.
	q.group.raft.ReadIndex(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, q.confirm.number), q.group.id))
}
