package core

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3"

	"strandline.dev/internal/record"
)

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
