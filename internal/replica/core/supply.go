package core

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"strandline.dev/internal/replica/core/lagging"
)

// supply provides lagging followers with data that is not in memory here: entries, see feed, and
// the snapshot at the start of the log, see base.
type supply struct {
	group *group
	ticks int // since followers that were sent a snapshot were checked
}

// Fed adds a range that Output.Feeds requested. Without entries it could not be read: the
// follower's next message makes Raft ask again.
func (s *supply) Fed(lo uint64, entries []*raftpb.Entry) {
	s.group.storage.feed.Add(lo, entries)
	if len(entries) == 0 || !s.group.Leads() {
		return
	}
	last := entries[len(entries)-1].GetIndex()
	s.nudge(func(next uint64) bool { return next >= lo && next <= last+1 })
}

// HeldBack checks again a range whose read is delayed: another follower may need it, or it may be
// more urgent. It returns false if the range should not be read, because no follower needs it or
// another range is more urgent.
func (s *supply) HeldBack(f *Feed) bool {
	f.Follower, f.Need = s.needs(f.Lo)
	if f.Follower == 0 || f.Need != lagging.Now && s.group.storage.feed.Refused {
		s.Fed(f.Lo, nil)
		return false
	}
	return true
}

// needs returns the follower for which a range from lo on is read, 0 if there is none any more,
// and how urgently it is needed.
func (s *supply) needs(lo uint64) (follower uint64, need lagging.Need) {
	next := uint64(0)
	s.group.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		// Raft asks for the term of the entry before, too.
		if id != s.group.id && p.Next <= lo+1 && (p.Next > next || p.Next == next && !slices.Contains(s.group.readReplicas, id)) {
			follower, next = id, p.Next
		}
	})
	switch {
	case follower == 0 || !s.majorityWithout(follower):
		return follower, lagging.Now
	case slices.Contains(s.group.readReplicas, follower):
		return follower, lagging.Someday
	}
	return follower, lagging.Soon
}

// majorityWithout reports whether entries commit without a replica: a majority of the others
// respond and need only data in memory.
func (s *supply) majorityWithout(replica uint64) bool {
	well := map[uint64]bool{s.group.id: true}
	s.group.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if id == s.group.id || id == replica || !s.group.heard.lately(id) || p.State != tracker.StateReplicate {
			return
		}
		_, inMemory := s.group.storage.tail.At(p.Next)
		well[id] = inMemory || p.Next > s.group.storage.last
	})
	for _, voters := range [][]uint64{s.group.storage.conf.GetVoters(), s.group.storage.conf.GetVotersOutgoing()} {
		left := 0
		for _, id := range voters {
			if well[id] {
				left++
			}
		}
		if len(voters) > 0 && 2*left <= len(voters) {
			return false
		}
	}
	return true
}

// nudge makes Raft check again the followers for which something has been read, selected by the
// index that they need next. Raft sends a follower that answers a heartbeat what it lacks, so
// nudge simulates such an answer. It does so only for followers that have sent a message
// recently, so that no other counts as alive.
func (s *supply) nudge(who func(next uint64) bool) {
	var waiting []uint64
	s.group.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if id != s.group.id && p.RecentActive && p.State != tracker.StateSnapshot && who(p.Next) {
			waiting = append(waiting, id)
		}
	})
	for _, id := range waiting {
		s.group.heard.from(id)
		s.group.protect(func() {
			if err := s.group.raft.Step(&raftpb.Message{
				Type: raftpb.MsgHeartbeatResp.Enum(), From: new(id), To: new(s.group.id), Term: new(s.group.term),
			}); err != nil {
				s.group.logger.Debug("raft refused a nudge", "error", err)
			}
		})
	}
}

// BaseLoaded takes the result of Log.LoadBase, which Output.Base requested.
func (s *supply) BaseLoaded(index, term uint64, data []byte, err error) {
	b := &s.group.storage.base
	b.Reading = false
	if err != nil {
		s.group.logger.Warn("no snapshot for a follower at the moment", "error", err)
		s.group.storage.baseless.Wanted = true
		return
	}
	b.Index, b.Term, b.Data, b.Unused = index, term, data, 0
	if s.group.Leads() {
		s.nudge(func(next uint64) bool { return next <= index+1 })
	}
}

// retrySnapshots makes Raft check again the followers that were sent a snapshot: it may have been
// lost silently, and nothing else follows it. A large snapshot gets more time.
func (s *supply) retrySnapshots() {
	if s.ticks++; s.ticks < 4*electionTicks+s.group.storage.base.Patience() {
		return
	}
	s.ticks = 0
	var waiting []uint64
	s.group.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if p.State == tracker.StateSnapshot {
			waiting = append(waiting, id)
		}
	})
	for _, id := range waiting {
		s.group.SnapshotLost(id)
	}
}
