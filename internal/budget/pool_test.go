package budget

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// awaitWaiting returns when so many wait for the budget.
func awaitWaiting(b *Pool, n int) {
	for {
		b.mu.Lock()
		waiting := b.waiting.Len()
		b.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

func TestAPoolIsNeverOverdrawn(t *testing.T) {
	const size = 100
	b := NewPool(size)
	var taken atomic.Int64
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			bytes := int64(10 + 7*i)
			for range 500 {
				if b.Acquire(context.Background(), bytes) != nil {
					t.Error("refused")
				}
				if taken.Add(bytes) > size {
					t.Error("overdrawn")
				}
				taken.Add(-bytes)
				b.Release(bytes)
			}
		})
	}
	workers.Wait()
	require.Zero(t, b.Used())
}

func TestWaitingIsFirstComeFirstServed(t *testing.T) {
	b := NewPool(10)
	require.NoError(t, b.Acquire(context.Background(), 8))
	large, small := make(chan error, 1), make(chan error, 1)
	go func() { large <- b.Acquire(context.Background(), 9) }()
	awaitWaiting(b, 1)
	go func() { small <- b.Acquire(context.Background(), 1) }()
	awaitWaiting(b, 2)
	// There would be room for the small one, but the large one came first.
	require.EqualValues(t, 8, b.Used())
	b.Release(8)
	require.NoError(t, <-large)
	require.NoError(t, <-small)
	require.EqualValues(t, 10, b.Used())
}

func TestWhoGivesUpWaitingLetsThoseBehindPass(t *testing.T) {
	b := NewPool(10)
	require.NoError(t, b.Acquire(context.Background(), 5))
	ctx, cancel := context.WithCancel(context.Background())
	large, small := make(chan error, 1), make(chan error, 1)
	go func() { large <- b.Acquire(ctx, 9) }()
	awaitWaiting(b, 1)
	go func() { small <- b.Acquire(context.Background(), 5) }()
	awaitWaiting(b, 2)
	cancel()
	require.ErrorIs(t, <-large, context.Canceled)
	require.NoError(t, <-small)
	b.Release(5)
	b.Release(5)
	require.Zero(t, b.Used())
}

func TestARequestLargerThanThePoolTakesAllOfIt(t *testing.T) {
	b := NewPool(10)
	require.NoError(t, b.Acquire(context.Background(), 1000))
	require.EqualValues(t, 10, b.Used())
	b.Release(1000)
	require.Zero(t, b.Used())
}

func TestWhoDoesNotWaitTakesNothingFromThoseWhoDo(t *testing.T) {
	b := NewPool(10)
	require.True(t, b.TryAcquire(8))
	require.False(t, b.TryAcquire(3))
	granted := make(chan error, 1)
	go func() { granted <- b.Acquire(context.Background(), 5) }()
	awaitWaiting(b, 1)
	require.False(t, b.TryAcquire(1), "somebody waits")
	b.Release(8)
	require.NoError(t, <-granted)
	require.True(t, b.TryAcquire(5))
}
