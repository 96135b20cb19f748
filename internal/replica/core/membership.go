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

	reshaping uint64 // index of the newest configuration change
	// covering is the index of an entry that this leader has proposed since the last configuration
	// change, see ConfigurationDurable; 0: none.
	covering uint64
}

// Reshape takes one step towards a configuration with exactly the wanted voters and learners, and
// returns true when no step is left. New voters are learners until they have caught up; then all
// replicas are added, removed and demoted in one joint change. Only the leader can do so. A
// leader that is not wanted makes the new voters vote, and hands over to one of them first.
func (m *membership) Reshape(wanted, learners []uint64) (done bool) {
	m.group.readReplicas = learners
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
		return false // without the others these would not be a majority
	case ready && !slices.Contains(wanted, m.group.id):
		// A leader never removes itself. It may have entries behind the change that no other replica
		// has, and steps down when the change has committed. A replica that does not know yet that the
		// change has committed needs its vote, but lacks entries and does not get it.
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
			return false // wait until a wanted voter has caught up
		}
	}
	m.proposeChange(&change)
	return false
}

// endTerm forgets what this leader has proposed: another leader may have replaced it, and the
// index of a change that no longer exists would block others until the log reaches it.
func (m *membership) endTerm() { m.reshaping, m.covering = 0, 0 }

// leaveJoint leaves a joint configuration that would otherwise persist. Raft leaves one when it
// has applied an entry, but not during a handover; if that handover fails, an idle log has no
// other entry. Raft also does not leave one that a recovery has entered, see Stopped.Continue.
func (m *membership) leaveJoint() {
	if len(m.group.storage.conf.GetVotersOutgoing()) > 0 && m.group.storage.applied == m.group.storage.last && m.handover.to == 0 {
		m.proposeChange(&raftpb.ConfChangeV2{})
	}
}

// ConfigurationDurable reports whether a majority of the current configuration would use it after
// a power failure of all nodes; until then it proposes what is missing. Replicas that have left
// must keep their files until it returns true.
//
// The fact that a change has committed is in the hard state of each replica, which is not synced
// for that reason: a majority may have the change on disk without knowing that it is committed.
// If it left a joint configuration, they would restart in the joint one, and request votes of
// replicas that are gone. An entry that is proposed after the change was applied is sent with a
// commit index that covers the change, and a follower makes both durable with the same sync.
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

// committedAtLeast returns an index up to which the entries of a log are committed: commit, from
// its hard state, or more if the configuration changes behind it prove more. It reads the entries
// (commit, last], of which there are few: each group write ends with the commit index known at
// that time.
//
// Raft proposes a configuration change only after the previous one was applied, and the same
// holds for the change that leaves a joint configuration. So all changes in a log but the last
// have committed. If a replica had the change k+1 on disk but restarted in the configuration
// before the change k, elections would not be safe: they require that the configurations of any
// two possible winners differ by at most one change. For example:
//
//  1. A log moves from {1, 2, 3} to {1, 2, 4}: change k enters the joint configuration, and
//     k+1 leaves it. Leader 1 has applied k, and sends k+1 to all, with a commit index that
//     covers k.
//  2. Replica 2 writes k+1 and that commit index as one group, the entry first. The power
//     fails between the two. It acknowledged nothing, so no acknowledged data is lost.
//  3. Replicas 1, 3 and 4 have stored k+1, which is a majority of both configurations. 1
//     and 4 apply it, and acknowledge records as a majority of {1, 2, 4}.
//  4. Replicas 2 and 3 cannot reach the others. By its commit index alone, 2 would restart
//     in {1, 2, 3}, and win with the vote of 3, which has stored no more than 2: there are
//     two leaders, and a client that reads from 2 misses acknowledged records.
//
// Writing the hard state first instead would require a commit index below the first entry of the
// group, since after a torn write the older entries that the group was to replace would count as
// committed; and a group may contain two changes.
//
// A replaced suffix does not invalidate this: the changes in a log prove the same whenever it is
// read, and a replica that lost k+1 to another leader needs to know about k-1 only. Entries that
// a snapshot covers need no proof. A refused change is stored as an entry without content, and is
// ignored here.
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

// partly returns the step to take while not all wanted voters can vote: one more learner, or else
// votes for those that are ready. No replica leaves meanwhile. So a replica that never catches up
// does not keep the others from voting.
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

// proposeChange proposes a change. It takes effect when it has been applied.
func (m *membership) proposeChange(change *raftpb.ConfChangeV2) {
	if err := m.group.raft.ProposeConfChange(change); err != nil {
		m.group.logger.Debug("raft dropped a change of the configuration", "error", err)
		return
	}
	// Raft assigns the next index. It is not matched with Raft's output, since only a bound is
	// needed below which not to try again.
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
