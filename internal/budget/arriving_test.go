package budget

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func enter(t *testing.T, a *Arriving, holder string, bytes int64) <-chan struct{} {
	t.Helper()
	in := make(chan struct{})
	go func() {
		if a.Acquire(t.Context(), holder, bytes) == nil {
			close(in)
		}
	}()
	synctest.Wait()
	return in
}

func isIn(in <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-in:
		return true
	default:
		return false
	}
}

func TestWhoAnnouncesMuchLeavesOthersTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewArriving(1000)
		for i := range 5 {
			require.True(t, isIn(enter(t, a, "mallory", 100)), i)
		}
		sixth := enter(t, a, "mallory", 100)
		require.False(t, isIn(sixth), "half is taken")
		require.True(t, a.Waiting())
		require.True(t, isIn(enter(t, a, "alice", 250)), "the other half is there")
		a.Release("mallory", 100)
		require.False(t, isIn(sixth), "500 would be as much as alice leaves, not more")
		a.Release("alice", 250)
		require.True(t, isIn(sixth))
		require.EqualValues(t, 500, a.Used())
		require.False(t, a.Waiting())
	})
}

func TestWhatIsLargeArrivesOneAfterTheOtherBesideTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewArriving(1000)
		require.True(t, isIn(enter(t, a, "mallory", 5000)))
		second, third := enter(t, a, "mallory", 5000), enter(t, a, "mallory", 5000)
		alices := enter(t, a, "alice", 300)
		require.False(t, isIn(second) || isIn(third) || isIn(alices))
		require.True(t, isIn(enter(t, a, "bob", 250)), "what is small needs no place of the large ones")
		a.Release("mallory", 5000)
		require.True(t, isIn(second), "it was first")
		a.Release("mallory", 5000)
		require.True(t, isIn(alices), "the next holder")
		require.False(t, isIn(third))
		a.Release("alice", 300)
		require.True(t, isIn(third))
	})
}

func TestWhoGivesUpLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewArriving(100)
		require.NoError(t, a.Acquire(t.Context(), "alice", 100))
		ctx, giveUp := context.WithCancel(t.Context())
		errs := make(chan error, 100)
		for i := range 100 {
			go func() { errs <- a.Acquire(ctx, fmt.Sprint("holder", i%7), 60) }()
		}
		synctest.Wait()
		giveUp()
		for range 100 {
			require.ErrorIs(t, <-errs, context.Canceled)
		}
		require.False(t, a.Waiting())
		a.Release("alice", 100)
		require.Empty(t, a.held)
		require.Zero(t, a.Used())
		require.True(t, isIn(enter(t, a, "bob", 100)))
	})
}
