package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// slowEntries are entries that the disk does not give before it is told to.
type slowEntries struct {
	segment.Log
	give chan struct{}
}

func (l *slowEntries) Entries(lo, hi uint64, most int) ([]segment.Frame, error) {
	<-l.give
	return l.Log.Entries(lo, hi, most)
}

func TestTheLoopDoesNotWaitForTheDiskToTellHowFarAFollowerIs(t *testing.T) {
	log := &slowEntries{segment.NewMemory(bootstrapOf(t, 1)), make(chan struct{})}
	r := startOn(t, log, nil)
	for range 3 {
		require.Nil(t, r.answerTo(&Request{Append: values(t, "one", "two")}).Refusal)
	}
	told := make(chan record.Offset, 1)
	require.Nil(t, r.Do(func(c *Core) {
		c.tail.evict(c.applied, 0)
		c.applied++ // so that what this replica itself has is not known to be the end
	}))
	require.Nil(t, r.Peers(func(peers []Peer) { told <- peers[0].End }))
	require.Nil(t, r.Do(func(c *Core) { c.applied-- }))
	replied := make(chan struct{})
	require.Nil(t, r.Do(func(*Core) { close(replied) }))
	<-replied
	close(log.give)
	require.Equal(t, record.Offset(6), <-told)
}
