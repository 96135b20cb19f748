package core

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
)

func TestAFollowerStopsWhenItsLeaderHasAnotherCommittedEntry(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	c.append(l, values(t, "acknowledged"))
	c.settle()
	follower := c.all[l%3+1].core
	mine, err := follower.storage.Term(follower.storage.commit)
	require.NoError(t, err)
	message := func(term, before uint64) *raftpb.Message {
		return &raftpb.Message{
			Type: raftpb.MsgApp.Enum(), From: new(l), To: new(follower.id), Term: new(term),
			Index: new(follower.storage.commit), LogTerm: new(before), Commit: new(follower.storage.commit),
		}
	}
	require.NoError(t, follower.Step(message(follower.term, mine)))
	require.NoError(t, follower.Step(message(follower.term-1, mine-1)), "a deposed leader may have another entry")
	require.Nil(t, follower.Failed())
	require.NoError(t, follower.Step(message(follower.term+1, mine+1)))
	require.Equal(t, record.Corrupt, follower.Failed().Reason)
	require.Contains(t, follower.Failed().Error(), "contradict each other")
}
