package background

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPausesOfABackoffDoubleToALimit(t *testing.T) {
	var b Backoff
	now := time.Unix(1, 0)
	for i, pause := range []time.Duration{LookEvery, 2 * LookEvery, 4 * LookEvery, 5 * LookEvery, 5 * LookEvery} {
		require.True(t, b.Due(now))
		require.Equal(t, i == 0, b.Tried(now, 5*LookEvery))
		require.False(t, b.Due(now.Add(pause-1)))
		now = now.Add(pause)
	}
	require.True(t, b.Due(now))
}
