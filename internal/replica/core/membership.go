package core

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/segment"
)

// membership changes the configuration of the log, step by step.
type membership struct {
	group     *group
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
	m.group.readers = learners
	conf := m.group.storage.conf
	if m.group.role != leaderReady || len(conf.GetVotersOutgoing()) > 0 || m.reshaping > m.group.storage.applied {
		return false
	}
	var change raftpb.ConfChangeV2
	step := func(kind raftpb.ConfChangeType, id uint64) {
		change.Changes = append(change.Changes, &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)})
	}
	ready := true
	for _, id := range wanted {
		switch {
		case m.group.isVoter(id):
		case !slices.Contains(conf.GetLearners(), id):
			step(raftpb.ConfChangeAddLearnerNode, id)
			ready = false
		case m.group.caughtUp(id):
			step(raftpb.ConfChangeAddNode, id)
		default:
			ready = false
		}
	}
	for _, id := range learners {
		if !m.group.isMember(id) {
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
			case m.group.isVoter(id):
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
	case ready && !m.group.canGoOn(wanted):
		return false // with the others gone these would be no majority
	case ready && !slices.Contains(wanted, m.group.id):
		// A leader never removes itself. It may have entries behind the change that
		// nobody else has, and steps down when the change has committed; one who has
		// yet to hear of that asks it for its vote, and has too little to get it.
		heir := m.group.heir(slices.DeleteFunc(slices.Clone(wanted), func(id uint64) bool { return !slices.Contains(m.handover.able, id) }))
		if heir == 0 {
			heir = m.group.heir(wanted)
		}
		if heir != 0 {
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

// endTerm forgets what this leader has proposed: another may have replaced it by less, and
// the index of a change that is gone would block others until the log reaches it.
func (m *membership) endTerm() { m.reshaping, m.covering = 0, 0 }

// leaveJoint leaves a joint configuration that nothing else leaves. Raft does so when it
// has applied an entry, but not during a handover; if that fails, an idle log has no other
// entry. Nor does Raft leave one that a recovery has entered, see Stopped.Continue.
func (m *membership) leaveJoint() {
	if len(m.group.storage.conf.GetVotersOutgoing()) > 0 && m.group.storage.applied == m.group.storage.last && m.handover.to == 0 {
		m.proposeChange(&raftpb.ConfChangeV2{})
	}
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
	if m.group.role != leaderReady || len(m.group.storage.conf.GetVotersOutgoing()) > 0 || m.reshaping > m.group.storage.applied {
		return false
	}
	if m.covering == 0 {
		if err := m.group.raft.Propose(nil); err != nil {
			m.group.logger.Debug("raft dropped an entry", "error", err)
			return false
		}
		m.covering = m.proposals.nextIndex(m.group.storage.last)
		m.group.stir()
	}
	return m.covering <= m.group.storage.commit
}

// committedAtLeast returns an index up to which the entries of a log are committed: commit,
// which its hard state says, or more, if the changes of the configuration behind it prove
// more. It reads the entries (commit, last], which are few: each group that is written ends
// with what was known to be committed then.
//
// Raft proposes a change of the configuration only after the one before was applied,
// which holds for the one that leaves a joint configuration as well: so all changes in a
// log but the last have committed. A replica that has the change k+1 on its disk and began
// again in the configuration from before the change k would break what elections rest on,
// that the configurations of any two who can win differ by one change at most:
//
//  1. A log moves from {1, 2, 3} to {1, 2, 4}: change k enters the joint configuration, and
//     k+1 leaves it. Leader 1 has applied k, and sends k+1 to all, with a commit index that
//     covers k.
//  2. Replica 2 writes k+1 and that commit index as one group, the entry first. The power
//     goes between the two. It acknowledged nothing, so nothing that it promised is lost.
//  3. Replicas 1, 3 and 4 have stored k+1, which is a majority of both configurations. 1
//     and 4 apply it, and acknowledge records as a majority of {1, 2, 4}.
//  4. Replicas 2 and 3 cannot reach the others. With its commit index alone, 2 would begin
//     again in {1, 2, 3}, and win with the vote of 3, which has stored no more than 2: two
//     leaders, and a reader of 2 misses what was acknowledged.
//
// Writing the hard state first instead would need a commit index below the first entry of
// the group, as after a torn write the older entries that the group was to replace would
// count as committed; and there may be two changes in one group.
//
// A suffix that was replaced takes nothing away: which changes a log has proves the same
// whenever it is read, and a replica that lost k+1 to another leader needs to know of
// k-1 only. Of what a snapshot covers, nothing needs to be proved. A change that was
// refused is stored as an entry without content, and counts for nothing here.
func committedAtLeast(log segment.Log, commit, last uint64) (uint64, error) {
	newest := uint64(0) // change behind commit
	for next := commit + 1; next <= last; {
		entries, err := log.Entries(next, last+1, readBytes)
		if err != nil {
			return 0, fmt.Errorf("read entry %d, which is not known to be committed: %w", next, err)
		}
		for i := range entries {
			if raftpb.EntryType(entries[i].Type) == raftpb.EntryNormal {
				continue
			}
			if newest > 0 {
				commit = newest
			}
			newest = entries[i].Index
		}
		next += uint64(len(entries))
	}
	return commit, nil
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
	voters := slices.Clone(m.group.storage.conf.GetVoters())
	for _, s := range changes {
		voters = append(voters, s.GetNodeId())
	}
	if !m.group.canGoOn(voters) {
		return nil
	}
	return changes
}

// proposeChange proposes a change; it is in force when it has been applied.
func (m *membership) proposeChange(change *raftpb.ConfChangeV2) {
	if err := m.group.raft.ProposeConfChange(change); err != nil {
		m.group.logger.Debug("raft dropped a change of the configuration", "error", err)
		return
	}
	// Raft gives it the next index. It is not matched with Raft's output: a
	// bound below which not to try again is all that is needed.
	m.reshaping = m.proposals.nextIndex(m.group.storage.last)
	m.group.stir()
	var voters, learners, removed []uint64
	for _, s := range change.GetChanges() {
		switch id := s.GetNodeId(); s.GetType() {
		case raftpb.ConfChangeAddNode:
			voters = append(voters, id)
		case raftpb.ConfChangeAddLearnerNode:
			learners = append(learners, id)
		default:
			removed = append(removed, id)
		}
	}
	m.group.logger.Info("changing which replicas the log has", "begin_to_vote", voters, "become_learners", learners, "leave", removed)
}
