package core

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core/lagging"
)

// lags is a log of which one replica lacks what has left the leader's memory. The other one
// follows.
func lags(t *testing.T) (c *trio, leader, lagging, other uint64) {
	c = newTrio(t, 1, 2, 3)
	leader = c.leader()
	lagging, other = leader%3+1, (leader+1)%3+1
	c.all[lagging].down = true
	for i := range 40 {
		c.append(leader, big(t, fmt.Sprint("record ", i), 1<<20))
		c.settle()
	}
	return c, leader, lagging, other
}

// requireFed requires that all that was read for a follower was needed like this.
func (c *trio) requireFed(leader, follower uint64, need lagging.Need) {
	c.t.Helper()
	require.NotEmpty(c.t, c.all[leader].fed)
	for _, f := range c.all[leader].fed {
		require.Equal(c.t, follower, f.Follower)
		require.Equal(c.t, need, f.Need)
	}
}

func TestAVoterThatLagsIsFedBesideAppends(t *testing.T) {
	c, l, behind, _ := lags(t)
	c.restart(behind)
	c.requireEnd(40)
	c.requireFed(l, behind, lagging.Soon)
}

func TestAVoterWithoutWhichNothingCommitsIsFedAtOnce(t *testing.T) {
	c, l, behind, other := lags(t)
	c.loses = func(m *raftpb.Message) bool { return m.GetType() == raftpb.MsgApp && m.GetTo() == behind }
	c.restart(behind)
	c.tick()
	c.all[other].down = true
	for range electionTicks + 2 {
		c.tick()
	}
	c.all[l].fed, c.loses = nil, nil
	c.requireEnd(40)
	c.requireFed(l, behind, lagging.Now)
}

func TestAReadReplicaIsFedWhenNobodyElseNeedsTheDisk(t *testing.T) {
	for _, wanted := range []struct {
		voters, readers []uint64
		need            lagging.Need
	}{
		{[]uint64{1, 2, 3}, []uint64{4}, lagging.Someday},
		{[]uint64{1, 2, 3, 4}, nil, lagging.Soon},
	} {
		c, l, behind, _ := lags(t)
		c.restart(behind)
		c.requireEnd(40)
		c.add(4, []uint64{1, 2, 3})
		c.all[l].fed = nil
		for i := 0; !c.all[l].core.Membership.Reshape(wanted.voters, wanted.readers); i++ {
			require.Less(t, i, 100)
			c.step(l)
			c.tick()
		}
		c.requireEnd(40)
		c.requireFed(l, 4, wanted.need)
	}
}

// What is on its way to a follower that takes nothing is bounded, and each append is
// acknowledged as soon as the other two have it.
func TestASlowFollowerNeverSlowsAFastMajority(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	slow, fast := l%3+1, (l+1)%3+1
	c.settle()
	var held []wire // on their way to the slow one
	onTheWay := func() (bytes int) {
		for _, w := range held {
			bytes += len(w.message)
		}
		return bytes
	}
	for i := range 100 {
		answer := c.append(l, big(t, fmt.Sprint("record ", i), 1<<20))
		for c.sync(l); ; c.sync(fast) {
			for len(c.wires) > 0 {
				if c.wires[0].to != slow {
					c.deliver(0)
					continue
				}
				held, c.wires = append(held, c.wires[0]), c.wires[1:]
			}
			if len(c.all[fast].pending)+len(c.all[l].pending) == 0 {
				break
			}
			c.sync(l)
		}
		require.Nil(t, answer.Refusal)
		require.Equal(t, record.Offset(i), answer.First.First)
		require.EqualValues(t, 1, answer.First.Count, "append %d waits for the slow follower", i)
		require.Less(t, onTheWay(), inFlightBytes+2<<20)
		_, kept := inMemory(c.all[l].core)
		require.Less(t, kept, 20<<20)
		require.Empty(t, c.all[l].fed, "nothing is read for one that has not taken what was sent")
	}
	require.Greater(t, onTheWay(), 32<<20, "it was sent a window")
	c.wires = append(c.wires, held...)
	c.requireEnd(100)
}

// As many ranges are held back as are read at once, and another one is needed.
func TestARangeThatIsHeldBackMakesRoomForOneThatIsNeeded(t *testing.T) {
	c, l, behind, _ := lags(t)
	leader := c.all[l]
	looked := false
	leader.reading = func(bool) {
		if looked {
			return
		}
		looked = true
		held, feed := leader.fed[len(leader.fed)-1], &leader.core.Group.storage.feed
		require.True(t, leader.core.Supply.HeldBack(&held))
		require.Equal(t, lagging.Soon, held.Need)
		other := held.Lo
		for !feed.Refused {
			other++
			feed.Take(other, 1<<40, 1)
		}
		require.False(t, leader.core.Supply.HeldBack(&held))
		feed.Take(other, 1<<40, 1)
		require.False(t, feed.Refused)
		require.Equal(t, other, feed.Wanted[len(feed.Wanted)-1].Lo)
	}
	c.restart(behind)
	c.requireEnd(40)
	require.True(t, looked)
}
