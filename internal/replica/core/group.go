package core

import (
	"log/slog"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/sequence"
)

// role is the role of a replica in its log.
type role uint8

const (
	// follower is a follower or candidate, or a replica that has ended.
	follower role = iota
	// elected is a leader that has not committed an entry of its own term yet.
	elected
	// leaderReady is a leader that has: its sequencer is complete and accepts appends.
	leaderReady
)

// group is what this replica knows of the replicas of its log: their configuration, the leader,
// and how far they follow. Other parts of the core access Raft through it.
type group struct {
	id      uint64
	raft    *raft.RawNode
	storage *storage
	logger  *slog.Logger
	// protect runs a function that calls Raft, see lifecycle.guard.
	protect func(func())

	role   role
	leader uint64 // replica id of the leader as Raft knows it; 0: none
	term   uint64
	heard  heard
	// readReplicas are the learners that must remain learners, from the last call of Reshape.
	readReplicas []uint64
	// failed is the reason why the replica ended, or nil.
	failed *record.Refusal
	// address returns the address for clients of a replica's node.
	address func(replica uint64) string
	// quietTicks is the number of ticks since anything happened, see activity.
	quietTicks int
}

// Leads reports whether this replica is the leader, ready or not.
func (g *group) Leads() bool { return g.role != follower }

// Members is the replicas of a log according to its Raft configuration. The lists are shared and
// never changed.
type Members struct {
	Voters, Learners []uint64
	// Outgoing, if not empty, are the voters of the previous configuration, a majority of which must
	// agree, too.
	Outgoing []uint64
}

func (g *group) members() Members {
	conf := g.storage.conf
	return Members{Voters: conf.GetVoters(), Learners: conf.GetLearners(), Outgoing: conf.GetVotersOutgoing()}
}

// otherThan returns the voters and learners without the given one. It omits outgoing voters.
func (m Members) otherThan(id uint64) []uint64 {
	return slices.DeleteFunc(slices.Concat(m.Voters, m.Learners), func(other uint64) bool { return other == id })
}

func (g *group) isVoter(id uint64) bool { return slices.Contains(g.storage.conf.GetVoters(), id) }

func (g *group) isMember(id uint64) bool {
	return g.isVoter(id) || slices.Contains(g.storage.conf.GetLearners(), id) ||
		slices.Contains(g.storage.conf.GetVotersOutgoing(), id)
}

// canGoOn reports whether a majority of the wanted voters respond.
func (g *group) canGoOn(wanted []uint64) bool {
	active := 0
	g.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if slices.Contains(wanted, id) && (p.RecentActive || id == g.id) {
			active++
		}
	})
	return 2*active > len(wanted)
}

// heir returns a wanted voter that can lead instead of this replica, or 0.
func (g *group) heir(wanted []uint64) (best uint64) {
	most := uint64(0)
	g.raft.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		if slices.Contains(wanted, id) && kind == raft.ProgressTypePeer && g.keepsUp(p) && p.Match >= most {
			best, most = id, p.Match
		}
	})
	return best
}

// caughtUp reports whether a learner lacks no more than is usually in flight.
func (g *group) caughtUp(id uint64) (yes bool) {
	g.raft.WithProgress(func(other uint64, _ raft.ProgressType, p tracker.Progress) {
		if other == id {
			yes = g.keepsUp(p)
		}
	})
	return yes
}

func (g *group) keepsUp(p tracker.Progress) bool {
	return p.RecentActive && p.State == tracker.StateReplicate && p.Match+caughtUpLag >= g.storage.last
}

// nextBest returns the recently active voter that has most of the log, or 0.
func (g *group) nextBest() (best uint64) {
	most := uint64(0)
	g.raft.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		if id != g.id && kind == raft.ProgressTypePeer && p.RecentActive && p.State == tracker.StateReplicate && p.Match >= most {
			best, most = id, p.Match
		}
	})
	return best
}

func (g *group) soleVoter() bool {
	voters := g.storage.conf.GetVoters()
	return len(voters) == 1 && voters[0] == g.id
}

// Unreachable records that a message to a replica was not sent.
func (g *group) Unreachable(replica uint64) {
	g.protect(func() { g.raft.ReportUnreachable(replica) })
}

// SnapshotLost records that a snapshot did not reach a replica.
func (g *group) SnapshotLost(replica uint64) {
	g.protect(func() { g.raft.ReportSnapshot(replica, raft.SnapshotFailure) })
}

// stir ends the idle state, because something happens. A follower and its leader wake together:
// what one does reaches the other as a message that is not a heartbeat.
func (g *group) stir() { g.quietTicks = 0 }

// StirBy ends the idle state, because a replica's node connected or disconnected. Followers react
// to their leader only: a follower that ticks fast while its leader does not would start an
// election.
func (g *group) StirBy(replica uint64) {
	if g.Leads() || g.leader == replica {
		g.stir()
	}
}

// caughtUpLag is approximately the number of entries in flight on a busy log.
const caughtUpLag = 64

// notLeader returns the refusal of a request that only the leader can serve. It names the leader
// if that is known.
func (g *group) notLeader() *record.Refusal {
	if g.leader == 0 || g.leader == g.id {
		return record.Refuse(record.NotLeader, "the log has no leader at the moment")
	}
	r := record.Refuse(record.NotLeader, "another node leads the log")
	r.Leader = g.address(g.leader)
	return r
}

// Tail returns the readable range and its part in memory.
func (g *group) Tail() *tail.Tail { return g.storage.tail }

// Positions returns the indexes of the newest entries that have been folded, are known to be
// committed, and are known to be durable here.
func (g *group) Positions() (applied, commit, durable uint64) {
	return g.storage.applied, g.storage.commit, g.storage.durable
}

// Folded returns the encoded table after the entries up to an index.
func (g *group) Folded() (index uint64, table []byte) {
	return g.storage.applied, g.storage.table.Snapshot(nil)
}

// Peer describes how far another replica follows this leader.
type Peer struct {
	Replica uint64
	Learner bool
	Active  bool // sent a message within an election timeout
	State   string
	End     record.Offset // end of what it has stored

	Match uint64 // index of the newest entry that it has stored
	Known bool   // End is set; otherwise it must be read from the log
}

// Peers returns what is known in memory about all replicas.
func (g *group) Peers() []Peer {
	if !g.Leads() || g.failed != nil {
		return nil
	}
	var peers []Peer
	g.raft.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		peer := Peer{
			Replica: id, Learner: kind == raft.ProgressTypeLearner, Active: id == g.id || g.heard.lately(id), State: p.State.String(),
			Match: p.Match, Known: p.Match == 0,
		}
		if p.Match == g.storage.applied {
			peer.End, peer.Known = g.storage.table.End(), true
		} else if e, ok := g.storage.tail.At(p.Match); ok {
			peer.End, peer.Known = e.End, true
		}
		peers = append(peers, peer)
	})
	slices.SortFunc(peers, func(a, b Peer) int { return int(int64(a.Replica) - int64(b.Replica)) })
	return peers
}

// Producers returns Kafka's producers in the committed entries, at most most of them.
func (g *group) Producers(most int) []sequence.Producer {
	return sequence.Producers(g.storage.table, most)
}

// heard records when a leader last received a message of each follower, in its own ticks. Raft's
// flag does not suffice: Raft clears it once per election timeout, so every follower counts as
// inactive until it answers the next heartbeat.
type heard struct {
	ticks uint64
	last  map[uint64]uint64 // by replica
}

func (h *heard) tick() { h.ticks++ }

func (h *heard) from(replica uint64) {
	if h.last == nil {
		h.last = map[uint64]uint64{}
	}
	h.last[replica] = h.ticks
}

// lately reports whether a replica sent a message within an election timeout.
func (h *heard) lately(replica uint64) bool {
	last, ever := h.last[replica]
	return ever && h.ticks-last <= electionTicks
}

// reset is called when a replica starts to lead, or ends.
func (h *heard) reset() { clear(h.last) }
