package core

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// Members are the replicas of a log as its Raft configuration tells. The lists
// are shared and never changed.
type Members struct {
	Voters, Learners []uint64
	// Outgoing, if not empty, are the voters of the configuration before, which
	// must agree to everything too.
	Outgoing []uint64
}

func (c *Core) members() Members {
	conf := c.storage.conf
	return Members{Voters: conf.GetVoters(), Learners: conf.GetLearners(), Outgoing: conf.GetVotersOutgoing()}
}

func (c *Core) isVoter(id uint64) bool { return slices.Contains(c.storage.conf.GetVoters(), id) }

func (c *Core) isMember(id uint64) bool {
	return c.isVoter(id) || slices.Contains(c.storage.conf.GetLearners(), id) ||
		slices.Contains(c.storage.conf.GetVotersOutgoing(), id)
}

// Reshape takes one step towards a configuration with exactly the wanted
// voters and learners, and reports true when there is nothing left to do. New
// voters are learners until they have caught up; then all that have to come, to go
// and to lose their vote do so in one joint change. Only the leader can. One that is
// not wanted lets those who have to come vote, and hands over to one of them first.
func (c *Core) Reshape(wanted, learners []uint64) (done bool) {
	conf := c.storage.conf
	if !c.leaderReady || c.failed != nil || len(conf.GetVotersOutgoing()) > 0 || c.reshaping > c.applied {
		return false
	}
	var change raftpb.ConfChangeV2
	step := func(kind raftpb.ConfChangeType, id uint64) {
		change.Changes = append(change.Changes, &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)})
	}
	ready := true
	for _, id := range wanted {
		switch {
		case c.isVoter(id):
		case !slices.Contains(conf.GetLearners(), id):
			step(raftpb.ConfChangeAddLearnerNode, id)
			ready = false
		case c.caughtUp(id):
			step(raftpb.ConfChangeAddNode, id)
		default:
			ready = false
		}
	}
	for _, id := range learners {
		if !c.isMember(id) {
			step(raftpb.ConfChangeAddLearnerNode, id)
			ready = false
		}
	}
	if ready {
		for _, id := range slices.Concat(conf.GetVoters(), conf.GetLearners()) {
			switch {
			case slices.Contains(wanted, id):
			case !slices.Contains(learners, id):
				step(raftpb.ConfChangeRemoveNode, id)
			case c.isVoter(id):
				step(raftpb.ConfChangeAddLearnerNode, id)
			}
		}
	} else {
		change.Changes = c.partly(change.Changes)
		if len(change.Changes) == 0 {
			return false
		}
	}
	switch {
	case len(change.Changes) == 0:
		return true
	case ready && !c.canGoOn(wanted):
		return false // with the others gone these would be no majority
	case ready && !slices.Contains(wanted, c.id):
		// A leader never removes itself. It may have entries behind the change that
		// nobody else has, and steps down when the change has committed; one who has
		// yet to hear of that asks it for its vote, and has too little to get it.
		if heir := c.heir(wanted); heir != 0 {
			c.HandOver(heir)
			return false
		}
		change.Changes = slices.DeleteFunc(change.Changes, func(s *raftpb.ConfChangeSingle) bool {
			return s.GetType() != raftpb.ConfChangeAddNode
		})
		if len(change.Changes) == 0 {
			return false // until a wanted voter has caught up
		}
	}
	c.proposeChange(&change)
	return false
}

// ConfigurationDurable reports whether a majority of the configuration in force
// would find itself in it after all power was cut; until then it proposes what is
// lacking. Replicas that have left must keep their files until it is so.
//
// That a change has committed is in the hard state of each replica, which nobody
// waits for: a majority may have the change on disk and not know that it counts.
// If it left a joint configuration, they begin again in that one, and ask for
// votes of replicas that are gone. An entry that is proposed after the change was
// applied travels with a commit index that covers it, and a follower writes both
// with the same sync.
func (c *Core) ConfigurationDurable() bool {
	if !c.leaderReady || c.failed != nil || len(c.storage.conf.GetVotersOutgoing()) > 0 || c.reshaping > c.applied {
		return false
	}
	if c.covering == 0 {
		if err := c.raft.Propose(nil); err != nil {
			c.logger.Debug("raft dropped an entry", "error", err)
			return false
		}
		c.covering = c.nextIndex()
		c.stir()
	}
	return c.covering <= c.commit
}

// nextIndex is the index that Raft has just given to a proposal, which comes out of
// it with the next Ready.
func (c *Core) nextIndex() uint64 { return c.storage.last + uint64(c.unplaced) + 1 }

// partly is the step to take while not all that are wanted can vote: one more
// learner, or else a vote for those who are ready. Nobody leaves meanwhile. So
// one that never comes does not keep the others from being safe.
func (c *Core) partly(changes []*raftpb.ConfChangeSingle) []*raftpb.ConfChangeSingle {
	for i, s := range changes {
		if s.GetType() == raftpb.ConfChangeAddLearnerNode {
			return changes[i : i+1]
		}
	}
	voters := slices.Clone(c.storage.conf.GetVoters())
	for _, s := range changes {
		voters = append(voters, s.GetNodeId())
	}
	if !c.canGoOn(voters) {
		return nil
	}
	return changes
}

// canGoOn reports whether a majority of voters-to-be answer.
func (c *Core) canGoOn(wanted []uint64) bool {
	active := 0
	c.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if slices.Contains(wanted, id) && (p.RecentActive || id == c.id) {
			active++
		}
	})
	return 2*active > len(wanted)
}

// heir is a wanted voter that can lead instead of this replica, or 0.
func (c *Core) heir(wanted []uint64) (best uint64) {
	most := uint64(0)
	c.raft.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		if slices.Contains(wanted, id) && kind == raft.ProgressTypePeer && c.keepsUp(p) && p.Match >= most {
			best, most = id, p.Match
		}
	})
	return best
}

// proposeChange proposes a change; it is in force when it has been applied.
func (c *Core) proposeChange(change *raftpb.ConfChangeV2) {
	if err := c.raft.ProposeConfChange(change); err != nil {
		c.logger.Debug("raft dropped a change of the configuration", "error", err)
		return
	}
	// Raft gives it the next index. It is not matched with what comes out: a
	// bound below which not to try again is all that is needed.
	c.reshaping = c.nextIndex()
	c.stir()
	c.logger.Info("changing the configuration", "change", change.String())
}

// caughtUp reports whether a learner lacks no more than is on its way at any
// time.
func (c *Core) caughtUp(id uint64) (yes bool) {
	c.raft.WithProgress(func(other uint64, _ raft.ProgressType, p tracker.Progress) {
		if other == id {
			yes = c.keepsUp(p)
		}
	})
	return yes
}

func (c *Core) keepsUp(p tracker.Progress) bool {
	return p.RecentActive && p.State == tracker.StateReplicate && p.Match+caughtUpLag >= c.storage.last
}

// caughtUpLag is about what is in flight on a busy log, in entries.
const caughtUpLag = 64

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
	if !c.leading || c.failed != nil {
		return nil
	}
	var peers []Peer
	c.raft.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		peer := Peer{
			Replica: id, Learner: kind == raft.ProgressTypeLearner, Active: id == c.id || c.heard.lately(id), State: p.State.String(),
			Match: p.Match, Known: p.Match == 0,
		}
		if p.Match == c.applied {
			peer.End, peer.Known = c.table.End(), true
		} else if e, ok := c.tail.At(p.Match); ok {
			peer.End, peer.Known = e.End, true
		}
		peers = append(peers, peer)
	})
	slices.SortFunc(peers, func(a, b Peer) int { return int(int64(a.Replica) - int64(b.Replica)) })
	return peers
}

// Producers returns Kafka's producers that the committed entries tell of, most at
// the most.
func (c *Core) Producers(most int) []sequence.Producer { return c.table.Producers(most) }
