package budget

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatOneHolderTakesDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRates(10, 100, 2*time.Second)
		took := func(holder string, n int) (bool, time.Duration) {
			t.Helper()
			begun := time.Now()
			ok, err := r.Wait(t.Context(), holder, n)
			require.NoError(t, err)
			return ok, time.Since(begun)
		}
		ok, waited := took("mallory", 100)
		require.True(t, ok)
		require.Zero(t, waited)
		ok, waited = took("mallory", 20)
		require.True(t, ok)
		require.Equal(t, 2*time.Second, waited)
		ok, waited = took("alice", 100)
		require.True(t, ok)
		require.Zero(t, waited)
		ok, waited = took("mallory", 100)
		require.False(t, ok)
		require.Equal(t, 2*time.Second, waited, "whoever is refused has waited")
		ok, waited = took("bob", 130)
		require.True(t, ok)
		require.Zero(t, waited)
		r.Owe("bob", 130)
		ok, _ = took("bob", 1)
		require.False(t, ok, "what is more than the burst is owed")
		ok, waited = took("bob", 1)
		require.True(t, ok)
		require.InDelta(t, 1100*time.Millisecond, waited, 1e6)
	})
}

// Waits of a holder that end early delay its other waits by the longest wait at most.
func TestWaitsThatEndEarlyKeepNoOthersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRates(10, 100, 2*time.Second)
		_, err := r.Wait(t.Context(), "alice", 100)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		for range 1000 {
			go func() { _, _ = r.Wait(ctx, "alice", 1) }()
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		begun := time.Now()
		ok, err := r.Wait(t.Context(), "alice", 1)
		require.NoError(t, err)
		require.True(t, ok)
		require.LessOrEqual(t, time.Since(begun), 2*time.Second)
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		_, err = r.Wait(ctx, "alice", 1)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestHoldersOfRatesAreForgottenWhenTheyAreOwedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRates(10, 2*MaxRated, time.Second)
		for i := range 2 * MaxRated {
			_, err := r.Wait(t.Context(), strconv.Itoa(i), 1)
			require.NoError(t, err)
		}
		require.Len(t, r.of, MaxRated)
		time.Sleep(2 * MaxRated * time.Second / 10)
		_, err := r.Wait(t.Context(), "one more", 1)
		require.NoError(t, err)
		require.Len(t, r.of, 1)
	})
}

func TestReservationsAreInOrderAndMayBeGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRates(10, 100, 0)
		require.Zero(t, r.Reserve("alice", 100))
		require.False(t, r.Owes("alice"))
		require.Equal(t, time.Second, r.Reserve("alice", 10))
		require.Equal(t, 3*time.Second, r.Reserve("alice", 20))
		require.True(t, r.Owes("alice"))
		require.False(t, r.Owes("bob"))
		time.Sleep(2 * time.Second)
		require.True(t, r.Owes("alice"))
		r.GiveBack("alice", 20)
		require.False(t, r.Owes("alice"))
		require.Zero(t, r.Reserve("alice", 10))
		require.Equal(t, time.Second, r.Reserve("alice", 10))
		r.GiveBack("bob", 100)
		require.Zero(t, r.Reserve("bob", 100))
		require.Equal(t, time.Second, r.Reserve("bob", 10), "nobody has more than the burst")
	})
}
