package budget

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestAHolderHasItsLaneAloneAndOthersHaveTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lanes := NewLanes()
		require.NoError(t, lanes.Acquire(t.Context(), "a"))
		require.NoError(t, lanes.Acquire(t.Context(), "b"), "another does not wait")
		var order []int
		for i := range 3 {
			go func() {
				require.NoError(t, lanes.Acquire(t.Context(), "a"))
				order = append(order, i)
			}()
			synctest.Wait()
		}
		require.Empty(t, order)
		for i := range 3 {
			lanes.Release("a")
			synctest.Wait()
			require.Len(t, order, i+1)
		}
		require.Equal(t, []int{0, 1, 2}, order)
		lanes.Release("a")
		lanes.Release("b")
		require.Empty(t, lanes.of, "nothing is kept of those who have left")
	})
}

func TestWhoGivesUpALaneLeavesItToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lanes := NewLanes()
		require.NoError(t, lanes.Acquire(t.Context(), "a"))
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- lanes.Acquire(ctx, "a") }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		lanes.Release("a")
		require.Empty(t, lanes.of)
		require.NoError(t, lanes.Acquire(t.Context(), "a"))
	})
}
