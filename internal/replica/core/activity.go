package core

import (
	"math"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/sequence"
)

// Never is the result of Due of a core for which ticks have no effect.
const Never = math.MaxInt64

// activity measures how much a log is used: it decides when a tick has an effect, and releases
// memory of a log that is not used.
//
// A log with one voter, which leads, has nobody to hear from. While nothing waits there, it needs a
// tick a second to release its memory, and then none until a lease runs out.
//
// Another log is idle when nothing has happened for a while. Its ticks are ten times as long, and
// those that only count are left out: a follower counts them when its leader may have failed, a
// leader when it sends a heartbeat.
type activity struct {
	proposer  *proposer
	group     *group
	round     *round
	proposals *proposals
	confirm   *confirmations
	short     *shortage
	election  *election
	hashing   *hashing
	rests     func() bool // see Config.Rests; nil: always true

	// busy is when the newest entry arrived, in monotonic milliseconds. released is set once that is
	// long ago and the memory for a busy log has been released.
	busy     int64
	released bool
	// counted is when the newest tick was counted, or of a follower the newest message of its leader
	// came, in monotonic milliseconds.
	counted int64
}

// Due returns when the next call of Tick has an effect, in monotonic milliseconds, if there is no
// input before: 0 if that is TickMillis after the last one, and Never.
func (a *activity) Due() int64 {
	switch {
	case a.group.failed != nil:
		return Never
	case a.waits():
		return 0
	case a.alone():
		if a.released {
			return a.leaseDue()
		}
		return min(a.counted+releaseMillis, a.leaseDue())
	case a.idle():
		return min(a.counted+int64(a.stride())*idleTickMillis, a.leaseDue())
	}
	return 0
}

// waits reports whether something waits that ticks may decide. Programs in line for the writer lease
// wait for its end: for an input, or for leaseDue. A follower with ticks of full length
// must not have a leader that is idle: it would start an election. What waits at a follower makes it
// ask the leader, which is not idle then.
func (a *activity) waits() bool {
	return len(a.proposer.queue) > 0 || len(a.proposals.list) > 0 || a.proposer.covered || a.group.Leads() && a.hashing.pause > 0 ||
		!a.confirm.empty() || a.short.state == short || a.short.state == asking || len(a.group.storage.conf.GetVotersOutgoing()) > 0
}

// alone reports whether this replica leads and waits for no other one.
func (a *activity) alone() bool {
	return a.group.role == leaderReady && a.group.soleVoter() && len(a.group.storage.conf.GetLearners()) == 0
}

// idle reports whether nothing has happened for a while.
func (a *activity) idle() bool {
	return a.group.quietTicks >= a.proposals.limits.Idle && a.group.leader != 0 && !a.drives()
}

// drives reports whether followers may need heartbeats at full pace from this leader. Nodes of before
// Config.Rests do not leave out ticks of a log with open sessions or leases of holds. They never have
// a writer lease.
func (a *activity) drives() bool {
	table := a.group.storage.table
	return a.rests != nil && a.group.Leads() && !a.rests() && (table.OpenSessions() > 0 || sequence.Expiring(table.Holds()))
}

// stride returns how many ticks of an idle log are counted at once.
func (a *activity) stride() int {
	if a.group.Leads() {
		return heartbeatTicks
	}
	// Elections begin at random after the election timeout, and not all at the end of one stride.
	return max(1, electionTicks-a.election.ticksSinceHeartbeat)
}

// leaseDue returns when a lease of the log runs out at the earliest, or something else of the
// sequencer may be due.
func (a *activity) leaseDue() int64 {
	if a.group.role != leaderReady {
		return Never
	}
	due := a.proposer.sequencer.Due()
	if due == sequence.NothingDue {
		return Never
	}
	return due + a.round.now.Stalled
}

// pass returns how many ticks have passed since the last one that was counted. It is 0 in an idle
// log if only a lease is due.
func (a *activity) pass() int {
	if !a.skips() {
		a.counted = a.round.now.Monotonic
		return 1
	}
	// The rest of a tick counts for the next one: ticks for leases may come at any gap.
	passed := (a.round.now.Monotonic - a.counted) / idleTickMillis
	a.counted += passed * idleTickMillis
	return int(min(passed, int64(a.stride())))
}

// skips reports whether ticks that only count are left out.
func (a *activity) skips() bool { return !a.waits() && !a.alone() && a.idle() }

// heard records a message of the leader to a follower. It returns how many ticks to count before:
// fewer than would begin an election.
func (a *activity) heard() (ticks int) {
	if a.skips() {
		skipped := int(min((a.round.now.Monotonic-a.counted)/idleTickMillis, electionTicks))
		ticks = min(skipped, electionTicks-1-a.election.ticksSinceHeartbeat)
	}
	a.counted = a.round.now.Monotonic
	return ticks
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
	if a.released || a.round.now.Monotonic-a.busy < a.proposals.limits.Release || len(a.proposer.queue) > 0 || len(a.proposals.list) > 0 ||
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
