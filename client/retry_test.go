package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The queries of a thousand clients that all wait would otherwise take the processors that
// nodes need to find each other.
func TestAClientThatHasWaitedForLongAsksLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began, asked := newPauses(), time.Now(), 0
		for time.Since(began) < time.Minute {
			before := time.Now()
			require.NoError(t, p.wait(t.Context(), nil))
			require.LessOrEqual(t, time.Since(before), min(max(lastDelay, before.Sub(began)/10), slowestDelay))
			if asked++; asked == 12 {
				require.Less(t, time.Since(began), 12*lastDelay, "at first it asks often")
			}
		}
		require.Less(t, asked, 150)
	})
}
