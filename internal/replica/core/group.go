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

// role is what a replica is among those of its log.
type role uint8

const (
	// follower, or candidate, or a replica that has ended.
	follower role = iota
	// elected: it leads, and has not committed an entry of its own term yet.
	elected
	// leaderReady: it has, so its sequencer is complete and takes appends.
	leaderReady
)

// group is what this replica knows of the replicas of its log: their configuration,
// who leads, and how far they follow. Other parts of the core reach Raft by it.
type group struct {
	id      uint64
	raft    *raft.RawNode
	storage *storage
	logger  *slog.Logger
	// protect runs what calls Raft, see lifecycle.guard.
	protect func(func())

	role   role
	leader uint64 // replica id of the leader as Raft knows it; 0: none
	term   uint64
	heard  heard
	// readers are learners that are to stay so, as Reshape was told last.
	readers []uint64
	// failed is why the replica ended, or nil.
	failed *record.Refusal
	// address is where the clients of a replica's node go.
	address func(replica uint64) string
	// quietTicks counts the ticks since anything happened, see activity.Pace.
	quietTicks int
}

// Leads reports whether this replica is the leader, ready or not.
func (g *group) Leads() bool { return g.role != follower }

// Members are the replicas of a log according to its Raft configuration. The lists
// are shared and never changed.
type Members struct {
	Voters, Learners []uint64
	// Outgoing, if not empty, are the voters of the configuration before, which
	// must agree to everything too.
	Outgoing []uint64
}

func (g *group) members() Members {
	conf := g.storage.conf
	return Members{Voters: conf.GetVoters(), Learners: conf.GetLearners(), Outgoing: conf.GetVotersOutgoing()}
}

// otherThan are all members but one, and but those that only have to agree until the
// configuration has changed.
func (m Members) otherThan(id uint64) []uint64 {
	return slices.DeleteFunc(slices.Concat(m.Voters, m.Learners), func(other uint64) bool { return other == id })
}

func (g *group) isVoter(id uint64) bool { return slices.Contains(g.storage.conf.GetVoters(), id) }

func (g *group) isMember(id uint64) bool {
	return g.isVoter(id) || slices.Contains(g.storage.conf.GetLearners(), id) ||
		slices.Contains(g.storage.conf.GetVotersOutgoing(), id)
}

// canGoOn reports whether a majority of voters-to-be answer.
func (g *group) canGoOn(wanted []uint64) bool {
	active := 0
	g.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if slices.Contains(wanted, id) && (p.RecentActive || id == g.id) {
			active++
		}
	})
	return 2*active > len(wanted)
}

// heir is a wanted voter that can lead instead of this replica, or 0.
func (g *group) heir(wanted []uint64) (best uint64) {
	most := uint64(0)
	g.raft.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		if slices.Contains(wanted, id) && kind == raft.ProgressTypePeer && g.keepsUp(p) && p.Match >= most {
			best, most = id, p.Match
		}
	})
	return best
}

// caughtUp reports whether a learner lacks no more than is on its way at any
// time.
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

// nextBest is the voter that has most of the log and was heard of lately, or 0.
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

// snapshotLost records that a snapshot did not reach a replica.
func (g *group) SnapshotLost(replica uint64) {
	g.protect(func() { g.raft.ReportSnapshot(replica, raft.SnapshotFailure) })
}

// stir ends the quiet: something happens. A follower and its leader stir together:
// what one does reaches the other as a message that is no heartbeat.
func (g *group) stir() { g.quietTicks = 0 }

// stirBy ends the quiet: a replica's node came or went. Followers mind their leader
// only: one that ticks fast while its leader does not would start an election.
func (g *group) StirBy(replica uint64) {
	if g.Leads() || g.leader == replica {
		g.stir()
	}
}

// caughtUpLag is about what is in flight on a busy log, in entries.
const caughtUpLag = 64

// notLeader refuses what only the leader can do, and names it if it is known.
func (g *group) notLeader() *record.Refusal {
	if g.leader == 0 || g.leader == g.id {
		return record.Refuse(record.NotLeader, "the log has no leader at the moment")
	}
	r := record.Refuse(record.NotLeader, "another node leads the log")
	r.Leader = g.address(g.leader)
	return r
}

// Tail is the readable range and what of it is in memory.
func (g *group) Tail() *tail.Tail { return g.storage.tail }

// Positions are the indexes of the newest entries that have been folded, that are
// known to be committed, and that are known to be durable here.
func (g *group) Positions() (applied, commit, durable uint64) {
	return g.storage.applied, g.storage.commit, g.storage.durable
}

// Folded is the table that the entries up to an index add up to here, encoded.
func (g *group) Folded() (index uint64, table []byte) {
	return g.storage.applied, g.storage.table.Snapshot(nil)
}

// Peer is how far another replica follows this leader.
type Peer struct {
	Replica uint64
	Learner bool
	Active  bool // heard of within an election timeout
	State   string
	End     record.Offset // of what it has stored

	Match uint64 // newest entry that it has stored
	Known bool   // End is; else it has to be read from the log
}

// Peers returns what memory holds about all replicas.
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

// Producers returns Kafka's producers that the committed entries name; most bounds
// their number.
func (g *group) Producers(most int) []sequence.Producer {
	return sequence.Producers(g.storage.table, most)
}

// heard is when a leader last heard of its followers, in its own ticks. Raft's flag
// does not do: Raft clears it once in an election timeout, so that every follower
// counts as inactive until the next heartbeat is answered.
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

// lately reports whether a replica was heard of within an election timeout.
func (h *heard) lately(replica uint64) bool {
	last, ever := h.last[replica]
	return ever && h.ticks-last <= electionTicks
}

// reset is for a replica that begins to lead, or ends.
func (h *heard) reset() { clear(h.last) }
