package budget

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestTurnsAreTakenHolderByHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		require.NoError(t, turns.Acquire(t.Context(), "many"))
		var order []string
		wait := func(holder string) {
			go func() {
				require.NoError(t, turns.Acquire(t.Context(), holder))
				order = append(order, holder)
				turns.Release()
			}()
			synctest.Wait()
		}
		for range 3 {
			wait("many")
		}
		wait("one")
		wait("other")
		turns.Release()
		synctest.Wait()
		require.Equal(t, []string{"many", "one", "other", "many", "many"}, order)
		require.Equal(t, 1, turns.Free())
	})
}

func TestWhoGivesUpATurnLeavesItToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		require.NoError(t, turns.Acquire(t.Context(), "a"))
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- turns.Acquire(ctx, "b") }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		require.Zero(t, turns.next.Len())
		require.Empty(t, turns.waiting)
		turns.Release()
		require.NoError(t, turns.Acquire(t.Context(), "c"))
		require.Zero(t, turns.Free())
	})
}
