package core

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

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

// Producers returns Kafka's producers that the committed entries tell of, most at
// the most.
func (g *group) Producers(most int) []sequence.Producer {
	return sequence.Producers(g.storage.table, most)
}
