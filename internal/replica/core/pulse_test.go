package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPauseOfTheProcessCountsAsOneTick(t *testing.T) {
	var p Pulse
	for now := int64(TickMillis); now <= 1000; now += TickMillis {
		require.Zero(t, p.Stalled(now))
		p.Beat(now)
	}
	require.Zero(t, p.Stalled(1000+2*TickMillis), "a beat may be late")
	const hour = 3_600_000
	require.EqualValues(t, hour-TickMillis, p.Stalled(1000+hour), "before the first beat after it, too")
	p.Beat(1000 + hour)
	require.EqualValues(t, hour-TickMillis, p.Stalled(1000+hour))
	require.EqualValues(t, hour-TickMillis, p.Stalled(1000+hour+TickMillis))
	p.Beat(1000 + 2*hour)
	require.EqualValues(t, 2*(hour-TickMillis), p.Stalled(1000+2*hour))
}
