package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALeaderWhoseDiskHangsHandsOver(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	require.Nil(t, c.append(l, values(t, "one")).Refusal)
	c.settle()
	c.all[l].core.Handover.SetStalled(true)
	for range 4 * electionTicks {
		c.tick()
	}
	require.NotEqual(t, l, c.leader(l))
}

// The votes of the others elect a replica that cannot store its own. It would lead
// without ever being ready: what it is to apply is never on its disk.
func TestALeaderThatWasElectedWhileItsDiskHangsHandsOver(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	require.Nil(t, c.append(l, values(t, "one")).Refusal)
	c.settle()
	hung := l%3 + 1
	c.all[hung].hangs = true
	require.True(t, c.all[l].core.Handover.HandOver(hung), "an idle log does not show that its disk hangs")
	c.step(l)
	c.settle()
	require.True(t, c.all[hung].core.Group.Leads())
	require.False(t, c.all[hung].core.Group.role == leaderReady)
	c.all[hung].core.Handover.SetStalled(true)
	next := c.leader()
	require.NotEqual(t, hung, next)
	require.Nil(t, c.append(next, values(t, "two")).Refusal)
	c.settle()
	c.all[hung].core.Handover.SetStalled(false)
	c.all[hung].hangs = false
	c.settle()
	c.requireEnd(2)
}

// Appends would wait until it has all.
func TestLeadershipIsNotHandedToAReplicaThatLags(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	lags := l%3 + 1
	c.all[lags].hangs = true
	for range caughtUpLag + 1 {
		require.Nil(t, c.append(l, values(t, "an entry of its own")).Refusal)
		c.settle()
	}
	require.False(t, c.all[l].core.Handover.HandOver(lags))
	c.all[lags].hangs = false
	c.settle()
	require.True(t, c.all[l].core.Handover.HandOver(lags))
	c.step(l)
	c.settle()
	require.True(t, c.all[lags].core.Group.Leads())
}
