package core

import (
	"time"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// Request is one append or command that waits for its answer.
type Request struct {
	Append  *sequence.Append // either this
	Command *record.Command  // or this
	// Done gets the answer exactly once, on the core's loop; it must not
	// block. May be nil.
	Done func(sequence.Answer)
	// Written, if not nil, gets the answer of an append that was accepted
	// once this leader has written it, before it is durable; at most once, from
	// any goroutine. It must not block. Done follows all the same.
	Written func(sequence.Answer)

	Arrived  int64 // see Now.Nano
	dequeued int64 // when the core took it, see Now.Nano
	expiry   bool  // counted in Core.expiring
}

// stages are those to be filled in, nil if nobody asks.
func (r *Request) stages() *sequence.Stages {
	if r.Append == nil {
		return nil
	}
	return r.Append.Stages
}

func (r *Request) bytes() int {
	if r.Append == nil {
		return 0
	}
	return r.Append.Bytes
}

// timing is when a proposal got how far; see Now.Nano. 0: not yet, or nobody measures.
type timing struct {
	arrived, dequeued int64 // its oldest request
	proposed          int64
	begun, written    int64 // the write that has it, see Write
	durable           int64 // on this disk
}

// stages are where the time went from arrived until committed. Whatever the order in which
// clocks were read, none is below 0 and they add up to all of it. What a majority has before
// this disk has waited for the other replicas alone since it was proposed.
func (t timing) stages(committed int64) sequence.Times {
	if t.durable == 0 || t.durable > committed {
		t.begun, t.written, t.durable = t.proposed, t.proposed, t.proposed
	}
	last := t.arrived
	until := func(at int64) time.Duration {
		before := last
		last = max(last, min(at, committed))
		return time.Duration(last - before)
	}
	return sequence.Times{
		Queue: until(t.dequeued), Batch: until(t.begun), Write: until(t.written), Sync: until(t.durable), Replicas: until(committed),
	}
}

// explained are the requests of a proposal that ask for their stages, and what these take
// that nobody else needs.
type explained struct {
	asked []*Request
	acks  []acknowledgement // of each other replica; none if nobody asks
}

// acknowledgement is when another replica had a proposal, see Now.Nano; 0: not yet.
type acknowledgement struct {
	replica uint64
	at      int64
}

func (e *explained) ask(q *Request, others []uint64) {
	e.asked = append(e.asked, q)
	if e.acks == nil {
		for _, id := range others {
			e.acks = append(e.acks, acknowledgement{replica: id})
		}
	}
}

func (e *explained) acknowledged(replica uint64, now int64) {
	for i := range e.acks {
		if a := &e.acks[i]; a.replica == replica && a.at == 0 {
			a.at = now
		}
	}
}

// acknowledged notes that another replica has all entries up to an index.
func (ps *proposals) acknowledged(replica, index uint64, now int64) {
	ps.acks.acknowledged(replica, index, now)
	for i := range ps.list {
		f := &ps.list[i]
		if f.index == 0 || f.index > index {
			return
		}
		f.acknowledged(replica, now)
	}
}

// explain fills in the stages of those who asked.
func (e *explained) explain(t timing, committed int64) {
	for _, q := range e.asked {
		t.arrived, t.dequeued = q.Arrived, q.dequeued
		s := q.stages()
		s.Times, s.Proposed = t.stages(committed), time.Duration(max(t.proposed-t.arrived, 0))
		for _, a := range e.acks {
			s.Acks = append(s.Acks, sequence.Ack{Replica: a.replica, Missing: a.at == 0, After: time.Duration(max(a.at-t.proposed, 0))})
		}
	}
}

// ackTimes measures how long each other replica takes to acknowledge an entry. It follows
// one entry at a time to each: one that lags counts with all of its delay, and costs no
// memory.
type ackTimes struct {
	report   func(replica uint64, after time.Duration) // Config.Acknowledged; nil: nobody measures
	followed []followedEntry                           // of each replica that has acknowledged anything in this term
}

// followedEntry is one on its way to a replica; index 0: the next that is proposed.
type followedEntry struct {
	replica, index uint64
	proposed       int64
}

func (t *ackTimes) placed(index uint64, proposed int64) {
	for i := range t.followed {
		if f := &t.followed[i]; f.index == 0 {
			f.index, f.proposed = index, proposed
		}
	}
}

func (t *ackTimes) acknowledged(replica, index uint64, now int64) {
	if t.report == nil {
		return
	}
	for i := range t.followed {
		if f := &t.followed[i]; f.replica == replica {
			if f.index != 0 && f.index <= index {
				t.report(replica, time.Duration(max(now-f.proposed, 0)))
				f.index = 0
			}
			return
		}
	}
	t.followed = append(t.followed, followedEntry{replica: replica})
}

func (t *ackTimes) endTerm() { t.followed = t.followed[:0] }
