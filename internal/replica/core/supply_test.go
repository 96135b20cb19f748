package core

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3"

	"strandline.dev/internal/replica/core/lagging"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
)

// baseAside fails the test when the snapshot is read before aside is true.
type baseAside struct {
	segment.Log
	t     *testing.T
	aside bool
}

func (l *baseAside) LoadBase() (uint64, uint64, []byte, error) {
	require.True(l.t, l.aside, "the loop reads the disk")
	return l.Log.LoadBase()
}

func TestTheSnapshotForAFollowerIsReadAside(t *testing.T) {
	log := &baseAside{Log: memory.New(bootstrapOf(t, 1)), t: t}
	c, err := newCore(1, log, log.HardState())
	require.NoError(t, err)
	_, err = c.storage.Snapshot()
	require.ErrorIs(t, err, raft.ErrSnapshotTemporarilyUnavailable)
	require.True(t, c.Advance().Base)
	_, err = c.storage.Snapshot()
	require.ErrorIs(t, err, raft.ErrSnapshotTemporarilyUnavailable)
	require.False(t, c.Advance().Base, "it is under way")
	log.aside = true
	c.BaseLoaded(log.LoadBase())
	log.aside = false
	s, err := c.storage.Snapshot()
	require.NoError(t, err)
	require.Equal(t, uint64(bootstrapIndex), s.GetMetadata().GetIndex())
	require.Equal(t, []uint64{1}, s.GetMetadata().GetConfState().GetVoters())

	for range lagging.FeedTicks + 1 {
		c.storage.base.Tick()
	}
	require.Nil(t, c.storage.base.Data, "nobody takes it any more")
}

// Raft clears its own flag once in an election timeout, and the cluster's status
// showed followers that are well as unreachable until the next heartbeat.
func TestAFollowerThatAnswersIsActiveAtEveryTick(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	c.append(l, values(t, "one"))
	c.settle()
	for i := range 4 * electionTicks {
		for range 1 + i%3 { // so that Raft's timeout ends here and not in c.tick, too
			c.all[l].core.Tick() // before anything that it sends is answered
		}
		for _, p := range c.all[l].core.Peers() {
			require.True(t, p.Active, "replica %d", p.Replica)
		}
		c.tick()
	}
	gone := l%3 + 1
	c.all[gone].down = true
	for range 2 * electionTicks {
		c.tick()
	}
	for _, p := range c.all[l].core.Peers() {
		require.Equal(t, p.Replica != gone, p.Active, "replica %d", p.Replica)
	}
}
