package core

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// reads are what rests on this replica's knowledge of who leads: linearizable reads,
// and what is asked of sessions.
type reads struct{ *proposer }

// confirmations are questions to the leader, whoever it is: how far has the log
// committed? All that gather while one ReadIndex is on its way share the next.
type confirmations struct {
	waiting []question  // not asked for yet
	asked   []question  // resting on the ReadIndex called number
	ready   []confirmed // answered by Raft, waiting to be applied
	number  uint64
	sent    int64 // ms when asked, see known
	ticks   int   // since asked; Raft forgets a ReadIndex without a word
	// known is when the newest question was sent whose answer has been applied,
	// in monotonic ms and those of suspensions: then at the latest all that is known here
	// was all there was. 0: never.
	known int64
}

// questionBytes is the length of the bytes that identify a question.
const questionBytes = 16

// question is somebody who waits.
type question struct {
	done func(*record.Refusal)
	// leading: it rests on this replica leading, and ends with that.
	leading bool
}

type confirmed struct {
	index uint64
	sent  int64
	asked []question
}

// Confirm calls done with nil once this replica has everything that was
// committed anywhere when Confirm was called, or with a refusal.
func (q *reads) Confirm(done func(*record.Refusal)) {
	q.stir()
	// It leaves with the answers, when others see the state that it rests on.
	answer := func(r *record.Refusal) {
		q.answer(func(sequence.Answer) { done(r) }, sequence.Answer{})
	}
	switch {
	case q.failed != nil:
		answer(q.failed)
	case q.leader == 0:
		answer(q.notLeader())
	default:
		q.confirm.add(answer)
	}
}

// askConfirmation starts a ReadIndex if somebody waits and none is under way.
func (q *reads) askConfirmation() {
	if len(q.confirm.waiting) == 0 || len(q.confirm.asked) > 0 || q.leader == 0 || q.Leads() && q.role != leaderReady {
		return // before it is ready a leader does not know what has committed
	}
	q.confirm.asked, q.confirm.waiting = q.confirm.waiting, nil
	if q.confirm.number == 0 {
		// Not the numbers of the process before, whose questions may still be
		// under way.
		q.confirm.number = uint64(q.now.Unix) << 16
	}
	q.confirm.number++
	q.confirm.ticks = 0
	q.confirm.sent = q.now.Monotonic + q.now.Suspended
	// The leader distinguishes questions by these bytes only.
	q.raft.ReadIndex(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, q.confirm.number), q.id))
}

func (q *confirmations) add(done func(*record.Refusal)) {
	q.waiting = append(q.waiting, question{done: done})
}

// addLeading adds what is true only as long as this replica leads.
func (q *confirmations) addLeading(done func(*record.Refusal)) {
	q.waiting = append(q.waiting, question{done: done, leading: true})
}

func (q *confirmations) empty() bool {
	return len(q.waiting) == 0 && len(q.asked) == 0 && len(q.ready) == 0
}

// tick asks again what stayed without an answer for an election timeout.
func (q *confirmations) tick() {
	if q.ticks++; q.ticks >= electionTicks && len(q.asked) > 0 {
		q.waiting, q.asked = slices.Concat(q.asked, q.waiting), nil
	}
}

// read takes Raft's answers; one to an older question counts for nothing.
func (q *confirmations) read(states []raft.ReadState) {
	for _, s := range states {
		if len(s.RequestCtx) == questionBytes && binary.LittleEndian.Uint64(s.RequestCtx) == q.number && len(q.asked) > 0 {
			q.ready = append(q.ready, confirmed{s.Index, q.sent, q.asked})
			q.asked = nil
		}
	}
}

// release calls those whose index has been applied.
func (q *confirmations) release(applied uint64) {
	for len(q.ready) > 0 && q.ready[0].index <= applied {
		r := q.ready[0]
		q.ready = q.ready[1:]
		q.known = max(q.known, r.sent)
		for _, a := range r.asked {
			a.done(nil)
		}
	}
}

// endTerm refuses what rested on leading. Others are asked again.
func (q *confirmations) endTerm(r *record.Refusal) {
	all := q.all()
	*q = confirmations{number: q.number, known: q.known}
	for _, a := range all {
		if a.leading {
			a.done(r)
		} else {
			q.waiting = append(q.waiting, a)
		}
	}
}

// refuse answers everything with a refusal.
func (q *confirmations) refuse(r *record.Refusal) {
	all := q.all()
	*q = confirmations{number: q.number, known: q.known}
	for _, a := range all {
		a.done(r)
	}
}

func (q *confirmations) all() []question {
	all := slices.Concat(q.waiting, q.asked)
	for _, r := range q.ready {
		all = append(all, r.asked...)
	}
	return all
}
