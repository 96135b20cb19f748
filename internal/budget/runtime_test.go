package budget

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatALoadHasHeldIsCollectedWhenItHasGone(t *testing.T) {
	r := releaser{most: 100}
	allocated := uint64(0)
	look := func(allocates, held uint64) bool {
		allocated += allocates
		return r.due(allocated, held)
	}
	require.False(t, look(500, 400), "the runtime collects by itself")
	require.True(t, look(10, 400), "the load waits, and holds this")
	r.collected(allocated, 380)
	for range collectAgain - 1 {
		require.False(t, look(10, 410), "this has been tried")
	}
	require.True(t, look(10, 410), "the load may have gone since")
	r.collected(allocated, 60)
	for range 3 * collectAgain {
		require.False(t, look(10, 90), "too little")
	}
	require.True(t, look(10, 110))
	r.collected(allocated, 110)
	require.True(t, look(10, 140), "a quarter more than was left")
}

// What a sync.Pool keeps is given back as well.
func TestMemoryInPoolsIsGivenBack(t *testing.T) {
	const buffers, size = 64, 4 << 20
	pool := sync.Pool{New: func() any { b := make([]byte, size); return &b }}
	before := Held()
	synctest.Test(t, func(t *testing.T) {
		var taken []*[]byte
		for range buffers {
			taken = append(taken, pool.Get().(*[]byte))
		}
		for _, b := range taken {
			clear(*b)
			pool.Put(b)
		}
		taken = nil
		require.Greater(t, Held(), before+buffers*size/2)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { Release(ctx, Least, LookEvery) })
		time.Sleep(3 * LookEvery)
		cancel()
		running.Wait()
	})
	require.Less(t, Held(), before+buffers*size/4)
}
