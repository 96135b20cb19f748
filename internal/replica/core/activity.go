package core

import (
	"strandline.dev/internal/budget"
	"strandline.dev/internal/sequence"
)

// Pace is how often a core needs ticks. A log that is not used costs almost nothing.
type Pace uint8

const (
	// EveryTick means that something waits, or happened recently.
	EveryTick Pace = iota
	// IdlePace means that nothing has happened for a while and only heartbeats are due: every
	// IdleEvery-th tick suffices.
	IdlePace
	// NoTicks means that ticks would have no effect: the log has one voter, which leads, and nothing
	// waits or will have to be forgotten.
	NoTicks
)

// activity measures how much a log is used, and releases memory while it is not.
type activity struct {
	proposer  *proposer
	group     *group
	round     *round
	proposals *proposals
	confirm   *confirmations
	short     *shortage

	// busy is when the newest entry arrived, in monotonic milliseconds. released is set once that is
	// long ago and the memory for a busy log has been released.
	busy     int64
	released bool
}

// Pace returns how often this core needs ticks now.
func (a *activity) Pace() Pace {
	switch conf := a.group.storage.conf; {
	case len(a.proposer.queue) > 0, len(a.proposals.list) > 0, !a.confirm.empty(), a.group.storage.table.OpenSessions() > 0, sequence.Expiring(a.group.storage.table.Holds()), a.leased(), a.short.state != complete:
		return EveryTick
	case a.group.role == leaderReady && a.group.soleVoter() && len(conf.GetLearners()) == 0 && a.released && a.group.storage.table.EndedSessions() == 0:
		return NoTicks
	case a.group.quietTicks >= idleAfter && a.group.leader != 0 && len(conf.GetVotersOutgoing()) == 0:
		return IdlePace
	}
	return EveryTick
}

// leased reports whether a program has the writer lease, or waits for it.
func (a *activity) leased() bool {
	_, held := a.group.storage.table.Holder()
	return held || len(a.proposer.line.waiting) > 0
}

// woken records that an entry has arrived.
func (a *activity) woken() { a.busy, a.released = a.round.now.Monotonic, false }

// release releases the memory of a log that has had no new entry for a while and has nothing in
// progress. That memory serves only a busy log. It applies to leaders and followers.
func (a *activity) release() {
	if a.group.storage.tail.Budget.Tight() {
		a.group.storage.tail.Evict(min(a.group.storage.applied, a.group.storage.durable)+1, a.group.storage.tail.Limit())
		a.proposer.sequencer.Release()
	}
	if a.released || a.round.now.Monotonic-a.busy < idleMillis || len(a.proposer.queue) > 0 || len(a.proposals.list) > 0 ||
		min(a.group.storage.applied, a.group.storage.durable) < a.group.storage.last {
		return
	}
	a.released = true
	a.group.storage.tail.Evict(a.group.storage.applied+1, 0)
	a.proposer.queue, a.proposer.decided, a.proposals.list = nil, nil, nil
	a.proposer.sequencer.Release()
	a.proposer.sequencer.ForgetKeys()
}

// sessionMemory counts the memory for the sessions of a log in that of the node. What has
// committed cannot be refused, so a follower counts what its leader has accepted.
type sessionMemory struct {
	all     *budget.Shares
	counted int64 // the part of this log in all
}

func (m *sessionMemory) count(bytes int64) {
	if bytes != m.counted {
		m.all.Changed(m.counted, bytes)
		m.counted = bytes
	}
}

// left returns how much memory is left. A log that takes more than all others could still have
// has none left: otherwise its writers would keep those of other logs from opening sessions.
func (m *sessionMemory) left() sequence.MemoryLeft {
	switch {
	case m.all.Crowds(m.counted):
		return sequence.MemoryUsedUp
	case m.all.Used() > m.all.Size()/8*7, m.all.Crowds(m.counted / 7 * 8):
		return sequence.MemoryTight
	}
	return sequence.MemoryAmple
}
