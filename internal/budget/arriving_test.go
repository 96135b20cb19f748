package budget

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
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

// Many that need little keep the part so full that one that needs a quarter never fits.
func TestARequestIsNotPassedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewArriving(1000)
		for i := range 8 {
			require.True(t, isIn(enter(t, a, fmt.Sprint("small", i), 100)))
		}
		alices := enter(t, a, "alice", 250)
		require.False(t, isIn(alices))
		oldest := 0
		turn := func() <-chan struct{} { // the oldest has arrived, and another one comes
			a.Release(fmt.Sprint("small", oldest), 100)
			oldest++
			return enter(t, a, fmt.Sprint("small", oldest+7), 100)
		}
		for i := range 10 {
			require.True(t, isIn(turn()), i)
			require.False(t, isIn(alices))
		}
		var behind []<-chan struct{}
		for !isIn(alices) {
			last := turn()
			require.False(t, isIn(last) && !isIn(alices), "nobody passes it any more")
			behind = append(behind, last)
			require.Less(t, len(behind), 8)
		}
		a.Release("alice", 250)
		for i, in := range behind {
			require.True(t, isIn(in), i)
		}
		require.False(t, a.Waiting())
	})
}

func TestWhatArrivesMayBecomeLargerThanWhatIsCountedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewArriving(1000)
		require.True(t, isIn(enter(t, a, "mallory", 100)))
		require.True(t, a.Grow("mallory", 400), "half of all")
		require.False(t, a.Grow("mallory", 1), "more than is left for others")
		require.True(t, isIn(enter(t, a, "alice", 240)))
		alices := enter(t, a, "alice", 200)
		require.False(t, isIn(alices))
		a.Release("mallory", 100)
		a.Shrink("mallory", 400)
		require.True(t, isIn(alices))
		require.EqualValues(t, 440, a.Used())
		require.Equal(t, map[string]int64{"alice": 440}, a.held)
	})
}

func TestAHolderThatHasSomethingKeepsNobodyWaitingForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewArriving(1000)
		require.True(t, isIn(enter(t, a, "mallory", 250)))
		require.True(t, isIn(enter(t, a, "alice", 150)))
		more := enter(t, a, "mallory", 240)
		require.False(t, isIn(more))
		for i := range 30 {
			require.True(t, isIn(enter(t, a, "bob", 100)), i)
			a.Release("bob", 100)
			require.True(t, isIn(enter(t, a, "alice", 100)), i)
			a.Release("alice", 100)
		}
	})
}

// BenchmarkArriving is a request that waits for its turn among a thousand holders of which each always has one.
func BenchmarkArriving(b *testing.B) {
	a := NewArriving(16 << 20)
	var holders atomic.Int64
	b.SetParallelism(1000 / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		holder := fmt.Sprint(holders.Add(1))
		for pb.Next() {
			if err := a.Acquire(b.Context(), holder, 4<<20); err != nil {
				b.Error(err)
			}
			runtime.Gosched() // it is being received
			a.Release(holder, 4<<20)
		}
	})
}
