package core

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
)

// A follower whose disk hangs keeps the log's share of the memory and no more, and has
// all when the disk works again.
func TestAFollowerTakesNoMoreEntriesThanItsShareOfTheMemory(t *testing.T) {
	const entries, size = 24, 1 << 20
	c := newTrio(t, 1, 2, 3)
	leader := c.leader()
	c.settle()
	slow := leader%3 + 1
	follower := c.all[slow]
	var err error
	follower.core, err = newCoreWithin(budget.Least, slow, follower.log, follower.log.HardState())
	require.NoError(t, err)
	follower.hangs = true
	share := int(budget.New(budget.Least).Tails.Size())
	for range entries {
		answer := c.append(leader, big(t, "x", size))
		c.tick()
		require.Nil(t, answer.Refusal)
		_, held := inMemory(follower.core)
		require.LessOrEqual(t, held, share)
	}
	last := follower.core.Group.storage.last
	message := &raftpb.Message{Type: raftpb.MsgApp.Enum(), Entries: []*raftpb.Entry{{Data: make([]byte, 2*size)}}}
	message.Index = new(last)
	require.True(t, follower.core.storer.crowded(message))
	message.Index = new(last - 1)
	require.False(t, follower.core.storer.crowded(message), "it replaces an entry")

	follower.hangs = false
	for range 30 {
		c.tick()
	}
	_, _, durable := follower.core.Group.Positions()
	require.Equal(t, c.all[leader].core.Group.storage.last, durable)
	c.requireEnd(entries)
}
