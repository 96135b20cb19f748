package lagging

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALargeSnapshotHasLongerToArrive(t *testing.T) {
	b := Base{Index: 7, Term: 1, Data: make([]byte, 100)}
	_, _, ok := b.Take(7)
	require.True(t, ok)
	require.Zero(t, b.Patience())
	b.Data = make([]byte, 8<<20)
	_, _, ok = b.Take(7)
	require.True(t, ok)
	require.Equal(t, 2*FeedTicks, b.Patience(), "2 s")
}
