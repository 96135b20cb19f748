package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAVerifiedRangeGrowsWhereItIsTouchedAndIsReplacedByALongerOne(t *testing.T) {
	var v verified
	require.Zero(t, v.through(0))
	v.add(100, 200)
	require.EqualValues(t, 200, v.through(100))
	require.Zero(t, v.through(200))
	require.Zero(t, v.through(99))
	v.add(200, 300)
	v.add(50, 120)
	require.EqualValues(t, 300, v.through(50))
	v.add(400, 450)
	require.Zero(t, v.through(400), "shorter")
	v.add(1000, 2000)
	require.EqualValues(t, 2000, v.through(1000))
	require.Zero(t, v.through(100))
	v.clear()
	require.Zero(t, v.through(1500))
}
