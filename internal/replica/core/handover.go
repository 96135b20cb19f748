package core

import (
	"strandline.dev/internal/replica/core/lagging"
)

// handover is a leader's way to stop leading without loss: it takes no new
// entries until those in flight have committed, and then lets another replica
// start an election at once. What waits in the queue is refused as NOT_LEADER when that
// one leads, and nothing becomes unknown.
type handover struct {
	group     *group
	proposals *proposals

	to    uint64 // replica id; 0: none under way
	asked bool   // Raft has been asked for it
	ticks int    // since it began

	slowness slowness
	stalled  bool // the disk hangs, see SetStalled
	// roomier are the voters to lead because this disk is full; none: it has as much room as a majority.
	roomier []uint64
	// able are the other voters that have the room that a majority has, see SetRoom.
	able []uint64
	// leaving counts the ticks for which this leader has had any.
	leaving int
}

// handOver lets replica to lead; 0 chooses the one that has most, of those with room if there are. It reports
// false if this replica does not lead, or to cannot take over.
func (h *handover) HandOver(to uint64) bool {
	if !h.group.Leads() {
		return false
	}
	if to == 0 {
		// One without room would hand over in turn, and perhaps back here.
		if to = h.group.heir(h.able); to == 0 {
			to = h.group.nextBest()
		}
	}
	if to == 0 || to == h.group.id || !h.group.isVoter(to) || !h.group.caughtUp(to) {
		return false // appends would wait for it
	}
	if h.to != to {
		h.to, h.asked, h.ticks = to, false, 0
	}
	return true
}

// ask asks Raft for the transfer once no proposal is in progress.
func (h *handover) ask() {
	if h.to != 0 && !h.asked && len(h.proposals.list) == 0 {
		h.asked = true
		h.group.raft.TransferLeader(h.to)
	}
}

// tick gives up when leadership has not ended in time: Raft does so too.
func (h *handover) tick() {
	if h.to == 0 {
		return
	}
	if h.ticks++; h.ticks > 2*electionTicks {
		h.to, h.asked, h.ticks = 0, false, 0
	}
}

// SetStalled records whether the disk has stalled. What a leader commits meanwhile is
// on the followers' disks alone, and where that is no majority nothing commits.
func (h *handover) SetStalled(stalled bool) { h.stalled = stalled }

// leaveDisk lets another replica lead while this disk hangs or is full.
func (h *handover) leaveDisk() {
	h.leaveStalledDisk()
	if len(h.roomier) > 0 && h.group.Leads() {
		h.leaving++
	} else {
		h.leaving = 0
	}
	h.leaveFullDisk()
}

// leaveStalledDisk lets another replica lead while the disk hangs. A leader that is
// not ready does so too: the votes of the others elect a replica that cannot store
// its own, and it is ready only when an entry of its term is on its disk.
func (h *handover) leaveStalledDisk() {
	if !h.stalled || h.to != 0 || !h.HandOver(0) {
		return
	}
	h.group.logger.Error("the disk has not finished a write for long; handing leadership over", "to", h.to)
}

// leaveTicks is how long appends wait for a leader with room: a second.
const leaveTicks = 2 * electionTicks

// setHeirs names the other voters that have room; leave: one of them is to lead in place of this one.
func (h *handover) setHeirs(heirs []uint64, leave bool) {
	h.able, h.roomier = heirs, nil
	if leave {
		h.roomier = heirs
	}
	h.leaveFullDisk()
}

// holdsAppends reports whether appends wait for another leader. Where none with more room
// takes over in time they are refused for lack of room.
func (h *handover) holdsAppends() bool {
	return h.to != 0 || len(h.roomier) > 0 && h.leaving < leaveTicks
}

// holdsTrims reports whether what makes room waits as well, while appends do. Raft takes nothing while
// leadership is being handed over, and it is handed over when nothing is in flight: what comes in
// every other tick waits, so that it does not depend on how much is trimmed.
func (h *handover) holdsTrims() bool { return h.to != 0 || h.leaving%2 == 0 }

// leaveFullDisk lets a replica lead that has room where this one has too little: the one that
// has most when nothing is in flight any more. It tries
// at each tick of every other second, so that appends which wait for one that does not take over are answered.
func (h *handover) leaveFullDisk() {
	if len(h.roomier) == 0 || !h.group.Leads() || h.to != 0 {
		return
	}
	h.group.stir()
	if len(h.proposals.list) > 0 || h.leaving/leaveTicks%2 != 0 {
		return
	}
	if heir := h.group.heir(h.roomier); heir != 0 && h.HandOver(heir) && h.leaving < leaveTicks {
		h.group.logger.Warn("this disk lacks room that the disks of a majority have; handing leadership over", "to", heir)
	}
}

// leaveWithoutBase hands over if a follower needs what another leader may have.
func (h *handover) leaveWithoutBase() {
	if !h.group.storage.baseless.Tick() || !h.HandOver(0) {
		return
	}
	h.group.storage.baseless.Ticks = lagging.BaselessEvery
	h.group.logger.Warn("a follower needs the snapshot at the start of the log, which is lost here; handing leadership over", "to", h.to)
}

// leaveSlowDisk hands over if this disk has been slower than the followers' for long.
func (h *handover) leaveSlowDisk(now int64) {
	if h.slowness.tick(now, h.group.storage.commit, h.group.storage.durable) && h.HandOver(0) {
		h.group.logger.Warn("this disk is slower than those of the followers; handing leadership over", "to", h.to)
		h.slowness = slowness{}
	}
}

// endTerm forgets a handover: leadership has ended.
func (h *handover) endTerm() {
	h.to, h.asked, h.ticks, h.leaving, h.slowness = 0, false, 0, 0, slowness{}
}

// A leader whose disk is much slower than those of its followers commits by
// their acknowledgements, long before its own write is done. It hands over once that
// was so in slowTicks of the last slowWindow ticks.
const (
	slowTicks  = 40
	slowWindow = 80 // 4 s
	// slowMillis that a write of the leader has been under way behind the
	// commit index make a tick count.
	slowMillis = 20
)

// slowness counts ticks in which this leader's disk was behind its followers'.
type slowness struct {
	behind int64 // when commit was first seen ahead of this disk; 0: it is not
	ticks  uint64
	slow   int // bits set in history
	recent [slowWindow]bool
}

func (s *slowness) tick(now int64, commit, durable uint64) (handOver bool) {
	switch {
	case commit <= durable:
		s.behind = 0
	case s.behind == 0:
		s.behind = now
	}
	slow := s.behind != 0 && now-s.behind >= slowMillis
	at := &s.recent[s.ticks%slowWindow]
	s.ticks++
	if *at {
		s.slow--
	}
	if *at = slow; slow {
		s.slow++
	}
	return s.slow >= slowTicks
}
