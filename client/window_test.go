package client

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheAutomaticWindowTakesFewSmallRequestsAndManyLargeOnes(t *testing.T) {
	w := newWindow(0, 16<<20)
	for range automaticSmall {
		require.True(t, w.admits(100))
		w.push(&request{size: 100})
	}
	require.False(t, w.admits(100))
	for range automaticRequests - automaticSmall {
		require.True(t, w.admits(automaticLarge))
		w.push(&request{size: automaticLarge})
	}
	require.False(t, w.admits(automaticLarge))
}

func TestARequestLargerThanTheWindowGoesAlone(t *testing.T) {
	w := newWindow(5, 1000)
	require.True(t, w.admits(2000))
	w.push(&request{size: 2000})
	require.False(t, w.admits(1))
}
