package hosted

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/reading"
)

func TestOnlyALogThatTakesAppendsHoldsItsReadersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Log{Opened: time.Now().Add(-time.Hour)}
		require.False(t, h.Appending(), "nothing was written yet")
		h.Appended.Store(int64(time.Hour))
		require.True(t, h.Appending())
		h.Appended.Store(int64(time.Hour - 2*reading.PacedTime))
		require.False(t, h.Appending())
	})
}

func TestReadsBeginAndEndWhileReplicasAreAsked(t *testing.T) {
	var a Ages
	first, second := new(Log), new(Log)
	a.Begin(first)
	asked := 0
	a.each(func(h *Log) {
		require.Same(t, first, h)
		asked++
		a.End(first)
		a.Begin(second)
	})
	a.each(func(h *Log) {
		require.Same(t, second, h)
		asked++
	})
	require.Equal(t, 2, asked)
}

// The catalog has no level of its own, and neither sessions nor holds.
func TestALogWithSessionsMayBeIdleOnceAllNodesLeaveOutTicks(t *testing.T) {
	require.True(t, (&Calls{}).Rests())
	for level, may := range map[int]bool{1: false, cluster.RestLevel - 1: false, cluster.RestLevel: true} {
		c := Calls{Level: func() int { return level }}
		require.Equal(t, may, c.Rests(), "level %d", level)
	}
}
