package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// The disks of a majority may pass both thresholds between two looks at them. What
// the leader has proposed by then lies in front of every trim, and of the first
// entry of the next leader.
func TestWhatIsInFlightWhenBothThresholdsArePassedDoesNotStopTrims(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	require.Nil(t, c.append(l, values(t, "one")).Refusal)
	c.settle()
	for id, m := range c.all {
		if id != l {
			m.core.SetRoom(sequence.RoomForTrims, sequence.RoomForTrims)
		}
	}
	pending := c.append(l, values(t, "two"))
	c.settle()
	require.Zero(t, pending.First.Count, "it may not be the last one")
	c.all[l].core.SetRoom(sequence.RoomForRecords, sequence.RoomForTrims)
	trimmed := c.command(l, record.Command{Kind: record.Trim, Offset: 1})
	for range 2 * electionTicks {
		c.tick()
	}
	require.Equal(t, uint32(1), pending.First.Count)
	require.Nil(t, trimmed.Refusal)
	require.EqualValues(t, 1, trimmed.Start)
	refused := c.append(l, values(t, "three"))
	c.settle()
	require.Equal(t, record.Full, refused.Refusal.Reason)
}

// A follower whose disk is full does not fill it up with what it is not needed for.
func TestAFullFollowerDoesNotTakeWhatHasCommittedWithoutIt(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	full := l%3 + 1
	c.all[full].core.SetRoom(sequence.RoomForTrims, sequence.RoomForTrims)
	last := c.all[full].log.LastIndex()
	for range 10 {
		c.append(l, values(t, "x"))
		c.settle()
	}
	c.all[l].core.SetRoom(sequence.RoomForTrims, sequence.RoomForTrims)
	for range 2 * electionTicks {
		c.tick()
	}
	require.Equal(t, last, c.all[full].log.LastIndex())
}
