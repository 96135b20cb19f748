package replica

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3"

	"strandline.dev/internal/record"
)

// confirmations are questions that rest on still being the leader: answers
// from committed state only, linearizable reads. All that gather while one
// ReadIndex is on its way share the next.
type confirmations struct {
	waiting []func(*record.Refusal) // not asked for yet
	asked   []func(*record.Refusal) // resting on the ReadIndex called number
	ready   []confirmed             // answered by Raft, waiting to be applied
	number  uint64
	ticks   int // since asked; Raft forgets a ReadIndex without a word
}

type confirmed struct {
	index uint64
	done  []func(*record.Refusal)
}

// Confirm calls done with nil once this replica has everything that was
// committed anywhere when Confirm was called, or with a refusal.
func (c *Core) Confirm(done func(*record.Refusal)) {
	switch {
	case c.failed != nil:
		done(c.failed)
	case c.leader == 0:
		done(record.Refuse(record.NotLeader, "the log has no leader at the moment"))
	default:
		c.confirm.add(done)
	}
}

// askConfirmation starts a ReadIndex if somebody waits and none is under way.
func (c *Core) askConfirmation() {
	q := &c.confirm
	if len(q.waiting) == 0 || len(q.asked) > 0 {
		return
	}
	q.asked, q.waiting = q.waiting, nil
	q.number++
	q.ticks = 0
	c.raft.ReadIndex(binary.LittleEndian.AppendUint64(nil, q.number))
}

func (q *confirmations) add(done func(*record.Refusal)) { q.waiting = append(q.waiting, done) }

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
		if len(s.RequestCtx) == 8 && binary.LittleEndian.Uint64(s.RequestCtx) == q.number && len(q.asked) > 0 {
			q.ready = append(q.ready, confirmed{s.Index, q.asked})
			q.asked = nil
		}
	}
}

// release calls those whose index has been applied.
func (q *confirmations) release(applied uint64) {
	for len(q.ready) > 0 && q.ready[0].index <= applied {
		done := q.ready[0].done
		q.ready = q.ready[1:]
		for _, d := range done {
			d(nil)
		}
	}
}

// refuse answers everything with a refusal.
func (q *confirmations) refuse(r *record.Refusal) {
	all := slices.Concat(q.waiting, q.asked)
	for _, c := range q.ready {
		all = append(all, c.done...)
	}
	*q = confirmations{number: q.number}
	for _, d := range all {
		d(r)
	}
}
