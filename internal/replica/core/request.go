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
	// Done is called with the answer exactly once, on the core's loop. It must not block. It may be
	// nil.
	Done func(sequence.Answer)
	// Written, if not nil, is called with the answer of an accepted append once this leader has
	// written it, before it is durable; at most once, from any goroutine. It must not block. Done is
	// called nevertheless.
	Written func(sequence.Answer)

	heir     string // with ReleaseWriter: the program in line that is to get the lease
	Arrived  int64  // see Now.Nano
	dequeued int64  // when the core accepted it, see Now.Nano
	expiry   bool   // counted in proposer.expiring
}

// stages returns the stages to be filled in, or nil if none were requested.
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

// timing is when a proposal reached each stage; see Now.Nano. 0: not yet, or not measured.
type timing struct {
	arrived, dequeued int64 // of its oldest request
	proposed          int64
	begun, written    int64 // of its write, see Write
	durable           int64 // on this disk
}

// stages returns how the time from arrived until committed was spent. In whatever order clocks
// were read, no stage is negative and they add up to the total. If a majority has the entry
// before this disk, the time since it was proposed counts as waiting for the other replicas.
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

// explained is the requests of a proposal for which stages were requested, and data needed only
// for these.
type explained struct {
	asked []*Request
	acks  []acknowledgement // of each other replica; empty if none were requested
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

// acknowledged records that another replica has all entries up to an index.
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

// explain fills in the requested stages.
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

// ackTimes measures how long each other replica takes to acknowledge an entry. It follows one
// entry at a time per replica: a lagging replica counts with its whole delay, and costs no
// memory.
type ackTimes struct {
	report   func(replica uint64, after time.Duration) // Config.Acknowledged; nil: not measured
	followed []followedEntry                           // one for each replica that has acknowledged anything in this term
}

// followedEntry is an entry in flight to a replica; index 0: the next one to be proposed.
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
