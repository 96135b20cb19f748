package core

import (
	"strandline.dev/internal/sequence"
)

// proposals is the entries given to Raft and not yet committed, oldest first.
type proposals struct {
	limits  Limits
	list    []proposal
	bundles uint64 // number of bundles so far
	// unplaced is how many of list, from the back, Raft has not assigned an index to yet.
	unplaced int
	// written are the functions to call when the next write is in the file, see noticed.
	written []func()
	// highLatency is set if entries take much longer to commit than to reach this disk, so that the
	// time in between is that of the network. See mayAdd.
	highLatency bool
	gather      gather
	committed   func(sequence.Times) // Config.Committed
	acks        ackTimes
}

// proposal is an entry that was given to Raft and has not committed.
type proposal struct {
	number  uint64 // number assigned by the sequencer
	bundle  uint64 // number of its bundle
	index   uint64 // 0 until Raft has assigned one
	crc     uint32
	bytes   int   // of the appends in its bundle; set in the last proposal of a bundle only
	durable int64 // monotonic milliseconds at which it was on this disk; 0: it is not yet
	timing  timing
	answers []Answered
	written []func() // see Request.Written
	explained
}

// progress describes what is proposed and has not committed.
type progress struct {
	bundles  int
	unstored int // bundles that are not on this disk yet
	bytes    int // bytes of all appends
	newest   int // bytes of the appends in the newest bundle
}

func (ps *proposals) progress() (p progress) {
	for i := range ps.list {
		f := &ps.list[i]
		if last := i+1 == len(ps.list) || ps.list[i+1].bundle != f.bundle; last {
			p.bundles++
			p.bytes += f.bytes
			p.newest = f.bytes
			if f.durable == 0 {
				p.unstored++
			}
		}
	}
	return p
}

// mayAdd reports whether another bundle may be made. While one is being synced a second one
// forms, but not before as much waits as is in progress: a second bundle with only the first
// waiting request would leave all others to a third, and every append would wait for three syncs
// instead of two.
//
// Across slow links, entries that are on this disk wait for the network alone. Then others follow
// without waiting, up to a window of bytes. On a slow disk everything that waits is proposed
// together, see gather, as long as it fits into an entry.
func (ps *proposals) mayAdd(requests, waiting int, now Now) bool {
	p, full := ps.progress(), waiting >= ps.limits.Table.EntryTarget
	switch {
	case p.bundles == 0:
		return ps.gather.over(requests, full, now.Nano)
	case ps.highLatency:
		return p.unstored < maxBundles && p.bytes < ps.limits.Window
	case p.bundles >= maxBundles, ps.gather.together() && !full:
		return false
	}
	return waiting >= p.newest
}

// commit removes the proposals that have committed, and delivers their answers.
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

// notice arranges for the caller of an accepted append to be called when it is written, before it
// is durable: Request.Written.
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

// noticed returns a function that calls those that wait for the proposals in the current write.
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

// wait makes the answer of a request wait for the proposal on which it rests. It returns false if
// that proposal has committed already.
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

// markDurable records which proposals are on this disk after a write that is durable.
func (ps *proposals) markDurable(index uint64, w *Write, now Now) {
	var proposed int64 // time of the newest proposal that is durable now
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

// place assigns an index to the oldest proposal without one, and returns its checksum. It returns
// false if there is none.
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

// nextIndex returns the index that Raft has just assigned to an entry, which the next Ready will
// contain. last is the index of the newest entry in a Ready so far.
func (ps *proposals) nextIndex(last uint64) uint64 { return last + uint64(ps.unplaced) + 1 }
