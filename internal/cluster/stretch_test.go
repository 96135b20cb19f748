package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheStretchOfARoundTrip(t *testing.T) {
	for ms, want := range map[int]int{0: 1, 1: 1, 35: 1, 100: 1, 101: 2, 140: 2, 300: 3, 700: 7, 5000: MaxStretch} {
		require.Equal(t, want, stretchOf(ms), "%d ms", ms)
	}
	trips := RoundTrips{1: {2: 40, 3: 140}, 3: {2: 290}}
	require.Equal(t, 3, trips.StretchFor([]uint64{1, 2, 3}), "the longest of all pairs, whoever measured it")
	require.Equal(t, 1, trips.StretchFor([]uint64{1, 2}))
	require.Equal(t, 1, trips.StretchFor([]uint64{7, 8}), "nothing is known")
}

// A story of round trips between two nodes, a look each second.
func TestAStretchRisesSoonAndFallsLate(t *testing.T) {
	s := members(2)
	s.Level = stretchLevel
	s.placed("near", 1, 1)
	s.placed("far", 2, 1, 2)
	var planner Stretcher
	now, changes := int64(0), 0
	lasts := func(seconds, ms int) {
		for range seconds {
			now += 1000
			trips := RoundTrips{1: {2: ms}}
			if ms < 0 {
				trips = nil
			}
			c := planner.Plan(now, s, trips)
			if c.Empty() {
				continue
			}
			changes++
			c.ID = "stretch"
			require.NoError(t, s.Fold(c))
		}
	}
	stretch := func() int { return max(s.Logs["far"].Stretch, 1) }
	lasts(60, 1)
	require.Equal(t, 1, stretch())
	lasts(9, 300)
	require.Equal(t, 1, stretch(), "it may be a moment")
	lasts(5, 300)
	require.Equal(t, 3, stretch())
	require.Equal(t, 1, max(s.Logs["near"].Stretch, 1), "it has nobody far away")
	changed := changes
	for range 100 {
		lasts(1, 190)
		lasts(1, 210)
	}
	require.Equal(t, changed, changes, "it does not go to and fro")
	lasts(60, -1)
	require.Equal(t, 3, stretch(), "nothing was measured")
	lasts(50, 1)
	require.Equal(t, 3, stretch())
	lasts(20, 1)
	require.Equal(t, 1, stretch())
	lasts(12, 560)
	require.Equal(t, stretchStep, stretch(), "replicas learn of it one after the other, and may be so far apart")
	lasts(12, 560)
	require.Equal(t, 6, stretch())
	lasts(300, 490)
	require.Equal(t, 6, stretch(), "links that got better do not make it rise")
	lasts(70, 1)
	require.Equal(t, 2, stretch(), "the same the other way")
	lasts(70, 1)
	require.Equal(t, 1, stretch())
	s.Level = 1
	lasts(100, 300)
	require.Equal(t, 1, stretch(), "older nodes do not know it")
}

func TestTheCatalogIsStretchedByItsVoters(t *testing.T) {
	s := voting(3)
	s.Level = stretchLevel
	var planner Stretcher
	trips := RoundTrips{1: {2: 140, 3: 10}, 2: {3: 150}}
	require.True(t, new(planner.Plan(0, s, trips)).Empty())
	c := planner.Plan(stretchRises, s, trips)
	require.Equal(t, 2, c.Stretch)
	c.ID = "stretch"
	require.NoError(t, s.Fold(c))
	require.Equal(t, 2, s.Stretch)
}
