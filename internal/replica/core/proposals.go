package core

import (
	"strandline.dev/internal/sequence"
)

// proposals are the entries given to Raft and not yet committed, oldest first.
type proposals struct {
	limits Limits
	list   []proposal
	drains uint64 // so far, of the queue into proposals
	// unplaced: Raft has not given an index yet to so many, the last.
	unplaced int
	// written is called when the write that is being made is, see noticed.
	written []func()
	// highLatency: entries take much longer to their commit than to this disk, so the
	// time between is the network's. See mayAdd.
	highLatency bool
	gather      gather
	committed   func(sequence.Times) // Config.Committed
	acks        ackTimes
}

// proposal is an entry that Raft was given and that has not committed.
type proposal struct {
	number  uint64 // the sequencer's number of it
	drain   uint64 // the drain of the queue that it came with
	index   uint64 // 0 until Raft has placed it
	crc     uint32
	bytes   int   // of the appends that were drained, on the last proposal of a drain
	durable int64 // monotonic ms when it was on this disk; 0: it is not yet
	timing  timing
	answers []Answered
	written []func() // see Request.Written
	explained
}

// progress is how much is proposed and has not committed.
type progress struct {
	drains   int
	unstored int // drains that are not on this disk yet
	bytes    int // of all appends
	newest   int // of those in the newest drain
}

func (ps *proposals) progress() (p progress) {
	for i := range ps.list {
		f := &ps.list[i]
		if last := i+1 == len(ps.list) || ps.list[i+1].drain != f.drain; last {
			p.drains++
			p.bytes += f.bytes
			p.newest = f.bytes
			if f.durable == 0 {
				p.unstored++
			}
		}
	}
	return p
}

// mayAdd reports whether another drain may begin. While one is being synced a
// second one forms, but not before as much waits as is on its way: a second one
// with the first request that comes would leave all the others to a third, and
// every append would wait for three syncs instead of two.
//
// Across slow links what is on this disk already waits for the network alone.
// Then others follow without waiting for it, up to a window of bytes. On a slow disk
// all that waits goes together, see gather, as long as it fits into an entry.
func (ps *proposals) mayAdd(requests, waiting int, now Now) bool {
	p, full := ps.progress(), waiting >= ps.limits.Table.EntryTarget
	switch {
	case p.drains == 0:
		return ps.gather.over(requests, full, now.Nano)
	case ps.highLatency:
		return p.unstored < maxDrains && p.bytes < ps.limits.Window
	case p.drains >= maxDrains, ps.gather.together() && !full:
		return false
	}
	return waiting >= p.newest
}

// commit takes the proposals out that have committed, and delivers their
// answers.
func (ps *proposals) commit(commit uint64, r *round) {
	n := 0
	for n < len(ps.list) && ps.list[n].index != 0 && ps.list[n].index <= commit {
		f := &ps.list[n]
		ps.highLatency = f.durable != 0 && r.now.Monotonic-f.durable >= highLatencyMillis
		r.out.Answers = append(r.out.Answers, f.answers...)
		ps.gather.answered += len(f.answers)
		if ps.committed != nil && f.timing.arrived != 0 {
			ps.committed(f.timing.stages(r.now.Nano))
		}
		f.explain(f.timing, r.now.Nano)
		n++
	}
	left := copy(ps.list, ps.list[n:])
	clear(ps.list[left:])
	ps.list = ps.list[:left]
	ps.gather.news = ps.gather.news || n > 0
}

// notice lets the caller of an accepted append know when it is written, before
// it is durable: Request.Written.
func (ps *proposals) notice(q *Request, a sequence.Answer) {
	if q.Written == nil || a.Refusal != nil || a.RestsOn == 0 {
		return
	}
	for i := len(ps.list) - 1; i >= 0; i-- {
		if f := &ps.list[i]; f.number == a.RestsOn && f.index == 0 {
			f.written = append(f.written, func() { q.Written(a) })
			return
		}
	}
}

// noticed takes those that wait for the proposals which the write at hand holds.
func (ps *proposals) noticed() func() {
	all := ps.written
	ps.written = nil
	if len(all) == 0 {
		return nil
	}
	return func() {
		for _, call := range all {
			call()
		}
	}
}

// wait lets the answer of a request wait for the proposal that it rests on; it reports
// false if that one has committed already.
func (ps *proposals) wait(q *Request, a sequence.Answer, g *group) bool {
	for i := len(ps.list) - 1; i >= 0; i-- {
		if f := &ps.list[i]; f.number == a.RestsOn {
			f.answers = append(f.answers, Answered{q.Done, a})
			if q.stages() != nil {
				f.ask(q, g.members().otherThan(g.id))
			}
			return true
		}
	}
	return false
}

// markDurable notes which proposals are on this disk, with a write that is durable.
func (ps *proposals) markDurable(index uint64, w *Write, now Now) {
	var proposed int64 // the newest that is durable now
	for i := range ps.list {
		if f := &ps.list[i]; f.durable == 0 && f.index != 0 && f.index <= index {
			f.durable = max(now.Monotonic, 1)
			f.timing.begun, f.timing.written, f.timing.durable = w.Begun, w.InFile, now.Nano
			proposed = f.timing.proposed
		}
	}
	if proposed != 0 {
		ps.gather.measure(proposed, now.Nano)
	}
}

// place gives the oldest proposal without an index its index, and returns its
// checksum. It reports false if there is none.
func (ps *proposals) place(index uint64) (crc uint32, ok bool) {
	if ps.unplaced == 0 {
		return 0, false
	}
	f := &ps.list[len(ps.list)-ps.unplaced]
	f.index = index
	ps.acks.placed(index, f.timing.proposed)
	ps.written, f.written = append(ps.written, f.written...), nil
	ps.unplaced--
	return f.crc, true
}

// nextIndex returns the index that Raft has just given to an entry, which the next Ready
// will contain; last is the index of the newest entry that a Ready has contained.
func (ps *proposals) nextIndex(last uint64) uint64 { return last + uint64(ps.unplaced) + 1 }
