package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheAutomaticWindowTakesFewSmallRequestsAndManyLargeOnes(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	w := newWindow(5, 1000)
	require.True(t, w.admits(2000))
	w.push(&request{size: 2000})
	require.False(t, w.admits(1))
}

func TestBytesInFlightGrowOnALongLinkAndNowhereElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given, want int
		answers     []time.Duration
	}{
		"a long link":                        {want: automaticFarBytes, answers: repeated(140*time.Millisecond, 10)},
		"a short one":                        {want: automaticBytes, answers: repeated(time.Millisecond, 10)},
		"a short one with a log that stalls": {want: automaticBytes, answers: append(repeated(time.Millisecond, 1), repeated(time.Second, 10)...)},
		"a bound that was given":             {given: 20 << 20, want: 20 << 20, answers: repeated(140*time.Millisecond, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			w, now := newWindow(0, c.given), time.Time{}.Add(time.Hour)
			for _, took := range c.answers {
				for w.admits(1 << 20) {
					w.push(&request{size: 1 << 20})
				}
				now = now.Add(took)
				w.answered(took, now)
				w.sent = 1
				w.pop()
			}
			require.Equal(t, c.want, w.maxBytes)
		})
	}
	w := newWindow(0, 0)
	w.push(&request{size: 1 << 20})
	w.answered(time.Second, time.Now())
	require.Equal(t, automaticBytes, w.maxBytes, "what is sent does not fill the window")
}

func repeated(d time.Duration, n int) (all []time.Duration) {
	for range n {
		all = append(all, d)
	}
	return all
}
