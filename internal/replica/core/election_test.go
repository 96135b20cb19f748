package core

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/segment/memory"
)

// begins starts the replicas of a new log, whose first founder is elected at once.
func begins(t *testing.T, founders ...uint64) *trio {
	c := newTrio(t)
	for i, id := range founders {
		b, err := Bootstrap(founders)
		require.NoError(t, err)
		o := newConfig(id, memory.New(b), b.HardState)
		if o.FirstLeader, o.AtOnce = i == 0, true; i > 0 {
			o.Elect = founders[0]
		}
		m := &member{log: o.Log}
		m.core, err = New(o)
		require.NoError(t, err)
		c.all[id] = m
	}
	return c
}

func TestFoundersVoteBeforeTheyAreAsked(t *testing.T) {
	c := begins(t, 1, 2, 3)
	c.loses = func(m *raftpb.Message) bool { return m.GetType() == raftpb.MsgVote }
	c.step(2)
	require.Empty(t, c.wires, "its vote is not durable")
	c.settle()
	require.Equal(t, leaderReady, c.all[1].core.Group.role)
	require.EqualValues(t, bootstrapIndex+1, c.all[1].core.Group.term)
}

func TestAFounderVotesUnaskedOnceOnly(t *testing.T) {
	c := begins(t, 1, 2, 3)
	c.all[1].down = true
	l := c.leader()
	require.NotEqualValues(t, 1, l)
	hard := c.all[l].log.HardState()
	o := newConfig(l, c.all[l].log, hard)
	o.Elect = 1
	var err error
	c.all[l].core, err = New(o)
	require.NoError(t, err)
	status := c.all[l].core.Group.raft.BasicStatus()
	require.Equal(t, hard.Term, status.HardState.GetTerm())
	require.Equal(t, hard.Vote, status.HardState.GetVote())
}
