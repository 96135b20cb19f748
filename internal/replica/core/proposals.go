package core

import (
	"time"

	"strandline.dev/internal/sequence"
)

// proposals are the entries given to Raft and not yet committed, oldest first.
type proposals struct {
	list   []proposal
	drains uint64 // so far, of the queue into proposals
	// unplaced: Raft has not given an index yet to so many, the last.
	unplaced int
	// written is called when the write that is being made is, see noticed.
	written []func()
	// highLatency: entries take much longer to their commit than to this disk, so the
	// time between is the network's. See mayAdd.
	highLatency bool
	committed   func(queue, disk, replicas time.Duration) // Config.Committed
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
}

// progress is how much is proposed and has not committed.
type progress struct {
	drains   int
	unstored int // drains that are not on this disk yet
	bytes    int // of all appends
	newest   int // of those in the newest drain
}

// timing is when the oldest request of a proposal arrived, when it was proposed and when
// it was on this disk; see Now.Nano. 0: not yet, or nobody measures.
type timing struct{ oldest, proposed, durable int64 }

// stages are where the time went until a proposal had committed, see Config.Committed: they
// follow each other, and add up to all of it.
func (t timing) stages(committed int64) (queue, disk, replicas time.Duration) {
	proposed := max(t.proposed, t.oldest)
	committed = max(committed, proposed)
	durable := proposed
	if t.durable != 0 && t.durable <= committed {
		durable = max(t.durable, proposed)
	}
	return time.Duration(proposed - t.oldest), time.Duration(durable - proposed), time.Duration(committed - durable)
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
// Then others follow without waiting for it, up to a window of bytes.
func (ps *proposals) mayAdd(waiting int) bool {
	p := ps.progress()
	switch {
	case p.drains == 0:
		return true
	case ps.highLatency:
		return p.unstored < maxDrains && p.bytes < windowBytes
	case p.drains >= maxDrains:
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
		ps.measured(f.timing, r.now)
		n++
	}
	left := copy(ps.list, ps.list[n:])
	clear(ps.list[left:])
	ps.list = ps.list[:left]
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

// measured reports how long a proposal that has committed took.
func (ps *proposals) measured(t timing, now Now) {
	if ps.committed != nil && t.oldest != 0 {
		ps.committed(t.stages(now.Nano))
	}
}

// wait lets an answer wait for a proposal; it reports false if that one has
// committed already.
func (ps *proposals) wait(number uint64, a Answered) bool {
	for i := len(ps.list) - 1; i >= 0; i-- {
		if f := &ps.list[i]; f.number == number {
			f.answers = append(f.answers, a)
			return true
		}
	}
	return false
}

// markDurable notes which proposals are on this disk.
func (ps *proposals) markDurable(index uint64, now Now) {
	for i := range ps.list {
		if f := &ps.list[i]; f.durable == 0 && f.index != 0 && f.index <= index {
			f.durable, f.timing.durable = max(now.Monotonic, 1), now.Nano
		}
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
	ps.written, f.written = append(ps.written, f.written...), nil
	ps.unplaced--
	return f.crc, true
}

// nextIndex returns the index that Raft has just given to an entry, which the next Ready
// will contain; last is the index of the newest entry that a Ready has contained.
func (ps *proposals) nextIndex(last uint64) uint64 { return last + uint64(ps.unplaced) + 1 }
