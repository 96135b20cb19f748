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
func (c *Core) Peers() []Peer {
	if !c.Leads() || c.failed != nil {
		return nil
	}
	var peers []Peer
	c.raft.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		peer := Peer{
			Replica: id, Learner: kind == raft.ProgressTypeLearner, Active: id == c.id || c.heard.lately(id), State: p.State.String(),
			Match: p.Match, Known: p.Match == 0,
		}
		if p.Match == c.storage.applied {
			peer.End, peer.Known = c.storage.table.End(), true
		} else if e, ok := c.storage.tail.At(p.Match); ok {
			peer.End, peer.Known = e.End, true
		}
		peers = append(peers, peer)
	})
	slices.SortFunc(peers, func(a, b Peer) int { return int(int64(a.Replica) - int64(b.Replica)) })
	return peers
}

// Producers returns Kafka's producers that the committed entries tell of, most at
// the most.
func (c *Core) Producers(most int) []sequence.Producer { return c.storage.table.Producers(most) }
