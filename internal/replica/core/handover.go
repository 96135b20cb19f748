package core

import (
	"strandline.dev/internal/replica/core/lagging"
)

// handover lets a leader stop leading without loss. It accepts no new entries until those in
// flight have committed, and then lets another replica start an election at once. Requests in the
// queue are refused as NOT_LEADER when that replica leads, and the outcome of none becomes
// unknown.
type handover struct {
	group     *group
	proposals *proposals

	to    uint64 // replica id; 0: no handover
	asked bool   // Raft has been asked to transfer leadership
	ticks int    // since the handover began

	slowness slowness
	stalled  bool // the disk hangs, see SetStalled
	// roomier are the voters that should lead because this disk is full; none if it has as much room
	// as a majority.
	roomier []uint64
	// able are the other voters with the room of a majority, see SetRoom.
	able []uint64
	// leaving is the number of ticks since roomier was set.
	leaving int
}

// HandOver hands leadership to the replica to. If to is 0, it chooses the one that has most of
// the log, preferably one with room on its disk. It returns false if this replica does not lead,
// or to cannot take over.
func (h *handover) HandOver(to uint64) bool {
	if !h.group.Leads() {
		return false
	}
	if to == 0 {
		// A replica without room would hand over in turn, and perhaps back to this one.
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

// tick gives up if leadership has not ended in time, as Raft does.
func (h *handover) tick() {
	if h.to == 0 {
		return
	}
	if h.ticks++; h.ticks > 2*electionTicks {
		h.to, h.asked, h.ticks = 0, false, 0
	}
}

// SetStalled records whether the disk has stalled. Entries that a leader commits meanwhile are on
// the followers' disks alone, and if these are not a majority nothing commits.
func (h *handover) SetStalled(stalled bool) { h.stalled = stalled }

// leaveDisk hands over while this disk hangs or is full.
func (h *handover) leaveDisk() {
	h.leaveStalledDisk()
	if len(h.roomier) > 0 && h.group.Leads() {
		h.leaving++
	} else {
		h.leaving = 0
	}
	h.leaveFullDisk()
}

// leaveStalledDisk hands over while the disk hangs. A leader that is not ready does so too: the
// votes of others can elect a replica that cannot store its own, and it is ready only once an
// entry of its term is on its disk.
func (h *handover) leaveStalledDisk() {
	if !h.stalled || h.to != 0 || !h.HandOver(0) {
		return
	}
	h.group.logger.Error("a write to the disk has not finished for a long time; handing leadership over", "to", h.to)
}

// leaveTicks is how long appends wait for a leader with room: one second.
const leaveTicks = 2 * electionTicks

// setHeirs sets the other voters with room. leave reports whether one of them should lead in
// place of this replica.
func (h *handover) setHeirs(heirs []uint64, leave bool) {
	h.able, h.roomier = heirs, nil
	if leave {
		h.roomier = heirs
	}
	h.leaveFullDisk()
}

// holdsAppends reports whether appends wait for another leader. If none with more room takes over
// in time, they are refused for lack of room.
func (h *handover) holdsAppends() bool {
	return h.to != 0 || len(h.roomier) > 0 && h.leaving < leaveTicks
}

// holdsTrims reports whether commands that make room wait as well, while appends do. Raft accepts
// no proposal during a handover, and a handover begins when nothing is in flight. So commands
// that arrive in every other tick wait, and the handover does not depend on how much is trimmed.
func (h *handover) holdsTrims() bool { return h.to != 0 || h.leaving%2 == 0 }

// leaveFullDisk hands over to a replica with room if this one has too little: the one that has
// most of the log, once nothing is in flight. It tries at each tick of every other second, so
// that appends that wait in vain are answered.
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

// leaveWithoutBase hands over if a follower needs a snapshot that another leader may have.
func (h *handover) leaveWithoutBase() {
	if !h.group.storage.baseless.Tick() || !h.HandOver(0) {
		return
	}
	h.group.storage.baseless.Ticks = lagging.BaselessEvery
	h.group.logger.Warn("a follower needs the snapshot at the start of the log, which this replica has lost; handing leadership over", "to", h.to)
}

// leaveSlowDisk hands over if this disk has been slower than the followers' disks for a long
// time.
func (h *handover) leaveSlowDisk(now int64) {
	if h.slowness.tick(now, h.group.storage.commit, h.group.storage.durable) && h.HandOver(0) {
		h.group.logger.Warn("this disk is slower than those of the followers; handing leadership over", "to", h.to)
		h.slowness = slowness{}
	}
}

// endTerm forgets a handover, since leadership has ended.
func (h *handover) endTerm() {
	h.to, h.asked, h.ticks, h.leaving, h.slowness = 0, false, 0, 0, slowness{}
}

// If the disk of a leader is much slower than those of its followers, entries commit by their
// acknowledgements, long before its own write has finished. The leader hands over once that was
// so in slowTicks of the last slowWindow ticks.
const (
	slowTicks  = 40
	slowWindow = 80 // 4 s
	// slowMillis is how long a write of the leader must have been behind the commit index for a tick
	// to count.
	slowMillis = 20
)

// slowness counts the ticks in which this leader's disk was behind its followers'.
type slowness struct {
	behind int64 // when commit was first ahead of this disk; 0: it is not
	ticks  uint64
	slow   int // number of true values in recent
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
