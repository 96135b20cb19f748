package core

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
)

// tear opens a replica again after a power cut that came between the entries and the hard
// state of what it had pending: the entries are there.
func (c *trio) tear(id uint64) {
	m := c.all[id]
	for _, w := range m.pending {
		_, err := m.log.Write([]segment.Write{{Entries: w.Entries}})
		require.NoError(c.t, err)
	}
	c.restart(id)
}

// separate cuts all links between those in one and those in other.
func (c *trio) separate(one, other []uint64) {
	for _, a := range one {
		for _, b := range other {
			c.cut[[2]uint64{a, b}], c.cut[[2]uint64{b, a}] = true, true
		}
	}
}

// exchange lets everything arrive, and become durable on all but some.
func (c *trio) exchange(but ...uint64) {
	for range 20 {
		for len(c.wires) > 0 {
			c.deliver(0)
		}
		for id := range c.all {
			if !slices.Contains(but, id) {
				c.sync(id)
			}
		}
	}
}

// The crash story of committedAtLeast, step by step.
func TestATornWriteDuringAMoveMakesNoSecondLeader(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	wanted, leaves := c.learner(l)
	torn, lead := wanted[1], c.all[l].core
	// The change that enters the joint configuration is on all disks; one replica does not
	// hear in time that it has committed, and gets the change that leaves in the same group.
	lead.Membership.Reshape(wanted, nil)
	c.step(l)
	c.exchange(torn)
	require.Empty(t, lead.Group.members().Outgoing, "the others have left the joint configuration")
	c.separate([]uint64{l, 4}, []uint64{torn, leaves})
	c.wires = nil
	c.tear(torn)
	stopped, err := ReadStopped(c.all[torn].log, c.all[torn].log.HardState(), c.all[torn].log.LastIndex())
	require.NoError(t, err)
	require.Empty(t, stopped.Members().Outgoing)
	require.Contains(t, stopped.InForce().Outgoing, leaves, "by whose vote it would be elected")

	answer := c.append(l, values(t, "acknowledged"))
	for range 4 * electionTicks {
		c.tick()
		require.False(t, c.all[torn].core.Group.Leads(), "with a vote of a replica that has left, beside the leader of the new configuration")
	}
	require.Equal(t, uint32(1), answer.First.Count)
	clear(c.cut)
	delete(c.all, leaves)
	c.requireEnd(1)
}

// Entries behind the commit index of the hard state: n is one of records, c a change.
func TestWhatALogProvesToBeCommitted(t *testing.T) {
	const commit = bootstrapIndex + 3
	for entries, more := range map[string]uint64{
		"": 0, "n": 0, "nnn": 0, "c": 0, "ncn": 0,
		"cc": 1, "cnc": 1, "ncnncn": 2, "ccc": 2, "cnccnn": 3,
	} {
		log := memory.New(bootstrapOf(t, 1, 2, 3))
		for i, kind := range "ccc" + entries { // what is known to be committed proves nothing
			e := segment.Entry{Index: bootstrapIndex + 1 + uint64(i), Term: 2, CRC: record.Checksum(nil)}
			if kind == 'c' {
				e.Type = uint8(raftpb.EntryConfChangeV2)
			}
			_, err := log.Write([]segment.Write{{Entries: []segment.Entry{e}}})
			require.NoError(t, err)
		}
		got, err := committedAtLeast(log, commit, log.LastIndex())
		require.NoError(t, err)
		require.Equal(t, commit+more, got, entries)
	}
}

// learner adds replica 4 as a learner and waits until it may vote; wanted are the leader l,
// another, and 4 in the place of the third, which is returned.
func (c *trio) learner(l uint64) (wanted []uint64, leaves uint64) {
	c.t.Helper()
	leaves = (l+1)%3 + 1
	wanted = []uint64{l, l%3 + 1, 4}
	c.add(4, []uint64{1, 2, 3})
	lead := c.all[l].core
	for i := 0; !slices.Contains(lead.Group.members().Learners, 4) || !lead.Group.caughtUp(4); i++ {
		require.Less(c.t, i, 100)
		lead.Membership.Reshape(wanted, nil)
		c.step(l)
		c.tick()
	}
	return wanted, leaves
}

// reshape lets the leader take steps until it has the wanted voters, with no append.
func (c *trio) reshape(wanted []uint64) {
	c.t.Helper()
	for i := 0; ; i++ {
		require.Less(c.t, i, 200, "the log is idle, and is not reshaped: %v", c.all[c.leader()].core.Group.members())
		l := c.leader()
		if c.all[l].core.Membership.Reshape(wanted, nil) {
			return
		}
		c.step(l)
		c.tick()
	}
}

// Another leader has replaced the change before anybody else had it. It had a high index,
// behind appends that were replaced as well, which an idle log does not reach soon.
func TestAChangeThatWasReplacedBlocksNoOther(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	wanted, _ := c.learner(l)
	c.separate([]uint64{l}, []uint64{1, 2, 3, 4})
	for range 20 {
		c.append(l, values(t, "lost"))
		c.sync(l)
	}
	c.all[l].core.Membership.Reshape(wanted, nil)
	c.step(l)
	next := c.leader(l)
	clear(c.cut)
	for range 2 * electionTicks {
		c.tick()
	}
	require.True(t, c.all[next].core.Handover.HandOver(l))
	c.step(next)
	c.settle()
	require.Equal(t, l, c.leader(next))
	c.reshape(wanted)
}

// Raft leaves a joint configuration when it has applied an entry, but not while it hands
// over, and an idle log has no other entry.
func TestAnIdleLogLeavesAJointConfigurationAfterAHandoverThatFailed(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	wanted, _ := c.learner(l)
	c.loses = func(m *raftpb.Message) bool { return m.GetType() == raftpb.MsgTimeoutNow }
	lead := c.all[l].core
	lead.Membership.Reshape(wanted, nil)
	require.True(t, lead.Handover.HandOver(wanted[1]))
	c.step(l)
	c.settle()
	require.NotEmpty(t, lead.Group.members().Outgoing)
	for range 4 * electionTicks {
		c.tick()
	}
	require.Equal(t, l, c.leader())
	require.Empty(t, lead.Group.members().Outgoing)
	require.ElementsMatch(t, wanted, lead.Group.members().Voters)
}

// What a recovery writes enters a joint configuration that nothing leaves by itself. Who
// leads by a part of it leaves all the same.
func TestAnIdleLogLeavesAJointConfigurationThatIsToBeLeftExplicitly(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	wanted, leaves := c.learner(l)
	c.all[l].core.Membership.proposeChange(&raftpb.ConfChangeV2{
		Transition: raftpb.ConfChangeTransitionJointExplicit.Enum(),
		Changes: []*raftpb.ConfChangeSingle{
			{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(uint64(4))},
			{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(leaves)},
		},
	})
	c.step(l)
	c.settle()
	require.NotEmpty(t, c.all[l].core.Group.members().Outgoing)
	c.tick()
	require.Empty(t, c.all[l].core.Group.members().Outgoing)
	c.reshape(wanted)
}
