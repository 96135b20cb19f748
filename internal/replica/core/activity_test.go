package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/sequence"
)

func TestALogThatFillsItsShareOfSessionsLeavesRoomForOthers(t *testing.T) {
	all := budget.NewShares(1000)
	greedy, next, other := sessionMemory{all: all}, sessionMemory{all: all}, sessionMemory{all: all}
	fill := func(m *sessionMemory) {
		for m.left() != sequence.MemoryUsedUp {
			m.count(m.counted + 10)
		}
	}
	fill(&greedy)
	require.InDelta(t, 500, greedy.counted, 20)
	require.NotEqual(t, sequence.MemoryUsedUp, other.left())
	fill(&next)
	require.InDelta(t, 250, next.counted, 20)
	require.NotEqual(t, sequence.MemoryUsedUp, other.left())
	greedy.count(0)
	require.Equal(t, sequence.MemoryAmple, other.left())

	all.Changed(0, 1000)
	require.Equal(t, sequence.MemoryUsedUp, other.left(), "there is nothing left")
}
