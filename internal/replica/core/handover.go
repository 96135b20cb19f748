package core

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// handover is a leader's way to stop leading without loss: it takes no new
// entries until those in flight have committed, and then lets another replica
// start an election at once. What waits in the queue is refused as NOT_LEADER when that
// one leads, and nothing becomes unknown.
type handover struct {
	to    uint64 // replica id; 0: none under way
	asked bool   // Raft has been told
	ticks int    // since it began
}

// handOver lets replica to lead; 0 chooses the one that has most. It reports
// false if this replica does not lead, or to cannot take over.
func (c *Core) HandOver(to uint64) bool {
	if c.failed != nil || !c.leading {
		return false
	}
	if to == 0 {
		to = c.nextBest()
	}
	if to == 0 || to == c.id || !c.isVoter(to) || !c.caughtUp(to) {
		return false // appends would wait for it
	}
	if c.handover.to != to {
		c.handover = handover{to: to}
	}
	return true
}

// nextBest is the voter that has most of the log and was heard of lately, or 0.
func (c *Core) nextBest() (best uint64) {
	most := uint64(0)
	c.raft.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		if id != c.id && kind == raft.ProgressTypePeer && p.RecentActive && p.State == tracker.StateReplicate && p.Match >= most {
			best, most = id, p.Match
		}
	})
	return best
}

// askHandover tells Raft once nothing is in flight.
func (c *Core) askHandover() {
	if h := &c.handover; h.to != 0 && !h.asked && len(c.proposals) == 0 {
		h.asked = true
		c.raft.TransferLeader(h.to)
	}
}

// tick gives up when leadership has not ended in time: Raft does so too.
func (h *handover) tick() {
	if h.to == 0 {
		return
	}
	if h.ticks++; h.ticks > 2*electionTicks {
		*h = handover{}
	}
}

// A leader whose disk is much slower than those of its followers commits by
// their acknowledgements, long before its own write is done. It goes on so for
// slowTicks of the last slowWindow and then hands over.
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
