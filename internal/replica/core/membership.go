package core

import (
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// membership changes the configuration of the log, step by step.
type membership struct {
	*group
	proposals *proposals
	handover  *handover

	reshaping uint64 // index of the newest change of the configuration
	// covering is the index of an entry that this leader has proposed since the
	// configuration changed last, see ConfigurationDurable; 0: none.
	covering uint64
}

// Reshape takes one step towards a configuration with exactly the wanted
// voters and learners, and reports true when there is nothing left to do. New
// voters are learners until they have caught up; then all that have to come, to go
// and to lose their vote do so in one joint change. Only the leader can. One that is
// not wanted lets those who have to come vote, and hands over to one of them first.
func (m *membership) Reshape(wanted, learners []uint64) (done bool) {
	m.readers = learners
	conf := m.storage.conf
	if m.role != leaderReady || len(conf.GetVotersOutgoing()) > 0 || m.reshaping > m.storage.applied {
		return false
	}
	var change raftpb.ConfChangeV2
	step := func(kind raftpb.ConfChangeType, id uint64) {
		change.Changes = append(change.Changes, &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)})
	}
	ready := true
	for _, id := range wanted {
		switch {
		case m.isVoter(id):
		case !slices.Contains(conf.GetLearners(), id):
			step(raftpb.ConfChangeAddLearnerNode, id)
			ready = false
		case m.caughtUp(id):
			step(raftpb.ConfChangeAddNode, id)
		default:
			ready = false
		}
	}
	for _, id := range learners {
		if !m.isMember(id) {
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
			case m.isVoter(id):
				step(raftpb.ConfChangeAddLearnerNode, id)
			}
		}
	} else {
		change.Changes = m.partly(change.Changes)
		if len(change.Changes) == 0 {
			return false
		}
	}
	switch {
	case len(change.Changes) == 0:
		return true
	case ready && !m.canGoOn(wanted):
		return false // with the others gone these would be no majority
	case ready && !slices.Contains(wanted, m.id):
		// A leader never removes itself. It may have entries behind the change that
		// nobody else has, and steps down when the change has committed; one who has
		// yet to hear of that asks it for its vote, and has too little to get it.
		if heir := m.heir(wanted); heir != 0 {
			m.handover.HandOver(heir)
			return false
		}
		change.Changes = slices.DeleteFunc(change.Changes, func(s *raftpb.ConfChangeSingle) bool {
			return s.GetType() != raftpb.ConfChangeAddNode
		})
		if len(change.Changes) == 0 {
			return false // until a wanted voter has caught up
		}
	}
	m.proposeChange(&change)
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
func (m *membership) ConfigurationDurable() bool {
	if m.role != leaderReady || len(m.storage.conf.GetVotersOutgoing()) > 0 || m.reshaping > m.storage.applied {
		return false
	}
	if m.covering == 0 {
		if err := m.raft.Propose(nil); err != nil {
			m.logger.Debug("raft dropped an entry", "error", err)
			return false
		}
		m.covering = m.proposals.nextIndex(m.storage.last)
		m.stir()
	}
	return m.covering <= m.storage.commit
}

// partly is the step to take while not all that are wanted can vote: one more
// learner, or else a vote for those who are ready. Nobody leaves meanwhile. So
// one that never comes does not keep the others from being safe.
func (m *membership) partly(changes []*raftpb.ConfChangeSingle) []*raftpb.ConfChangeSingle {
	for i, s := range changes {
		if s.GetType() == raftpb.ConfChangeAddLearnerNode {
			return changes[i : i+1]
		}
	}
	voters := slices.Clone(m.storage.conf.GetVoters())
	for _, s := range changes {
		voters = append(voters, s.GetNodeId())
	}
	if !m.canGoOn(voters) {
		return nil
	}
	return changes
}

// proposeChange proposes a change; it is in force when it has been applied.
func (m *membership) proposeChange(change *raftpb.ConfChangeV2) {
	if err := m.raft.ProposeConfChange(change); err != nil {
		m.logger.Debug("raft dropped a change of the configuration", "error", err)
		return
	}
	// Raft gives it the next index. It is not matched with Raft's output: a
	// bound below which not to try again is all that is needed.
	m.reshaping = m.proposals.nextIndex(m.storage.last)
	m.stir()
	m.logger.Info("changing the configuration", "change", change.String())
}
