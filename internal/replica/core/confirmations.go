package core

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3"

	"strandline.dev/internal/record"
)

// confirmations are queries to the leader for the commit index. All queries that arrive while a
// ReadIndex is in progress share the next one.
type confirmations struct {
	waiting []question  // not sent yet
	asked   []question  // sent with the ReadIndex number
	ready   []confirmed // answered by Raft, waiting to be applied
	number  uint64
	sent    int64 // when asked was sent, see known
	ticks   int   // since asked was sent; Raft may drop a ReadIndex silently
	// known is when the newest query was sent whose answer has been applied, in monotonic
	// milliseconds plus the time of suspensions: at that time, everything committed was known here.
	// 0: never.
	known int64
}

// questionBytes is the length of the bytes that identify a query.
const questionBytes = 16

// question is one waiting query.
type question struct {
	done func(*record.Refusal)
	// leading is set if the query is valid only while this replica leads.
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

// addLeading adds a query that is valid only while this replica leads.
func (q *confirmations) addLeading(done func(*record.Refusal)) {
	q.waiting = append(q.waiting, question{done: done, leading: true})
}

func (q *confirmations) empty() bool {
	return len(q.waiting) == 0 && len(q.asked) == 0 && len(q.ready) == 0
}

// tick sends again what has been without an answer for an election timeout.
func (q *confirmations) tick() {
	if q.ticks++; q.ticks >= electionTicks && len(q.asked) > 0 {
		q.waiting, q.asked = slices.Concat(q.asked, q.waiting), nil
	}
}

// read takes Raft's answers. It ignores answers to older queries.
func (q *confirmations) read(states []raft.ReadState) {
	for _, s := range states {
		if len(s.RequestCtx) == questionBytes && binary.LittleEndian.Uint64(s.RequestCtx) == q.number && len(q.asked) > 0 {
			q.ready = append(q.ready, confirmed{s.Index, q.sent, q.asked})
			q.asked = nil
		}
	}
}

// release answers the queries whose index has been applied.
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

// endTerm refuses queries that were valid only while leading. Others are sent again.
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

// refuse answers all queries with a refusal.
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
