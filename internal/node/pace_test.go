package node

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadersOfOldRecordsPauseLongerWhereTimersAreLate(t *testing.T) {
	var p pace
	for range 20 {
		p.learn(max(time.Duration(p.pause.Load()), shortestPause), latePause+1)
	}
	require.Equal(t, longestPause, time.Duration(p.pause.Load()), "it is bounded")
	for range 1000 {
		p.learn(time.Duration(p.pause.Load()), latePause)
	}
	require.Equal(t, shortestPause, time.Duration(p.pause.Load()), "and ends when cores are to be had again")
}

func TestAReaderPausesForWhatItHasRead(t *testing.T) {
	p := pacer{pace: new(pace), written: new(atomic.Int64)}
	for range 3 {
		require.NoError(t, p.hold(t.Context(), 256<<10))
	}
	require.Equal(t, 3*shortestPause/4, p.owed, "less than the shortest pause is owed")
	begun := time.Now()
	require.NoError(t, p.hold(t.Context(), 256<<10))
	require.GreaterOrEqual(t, time.Since(begun), shortestPause)
	require.Zero(t, p.owed)
}

func TestAReaderWhoIsHeldBackCanGiveUp(t *testing.T) {
	p := pacer{pace: new(pace), written: new(atomic.Int64)}
	p.pace.pause.Store(int64(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.hold(ctx, 1<<20), context.Canceled)
	require.Equal(t, time.Hour, time.Duration(p.pace.pause.Load()), "which tells nothing of the cores")
}

func TestAReaderIsNotHeldBackSoThatItFallsBehindItsLog(t *testing.T) {
	p := pacer{pace: new(pace), written: new(atomic.Int64)}
	now := time.Now()
	require.Equal(t, longestPause, p.longest(now), "nothing is known of the log yet")
	p.written.Add(1 << 20)
	now = now.Add(rateEvery)
	require.Equal(t, longestPause, p.longest(now), "1 MiB/s is less than what it may read anyway")
	p.written.Add(50 << 20)
	now = now.Add(rateEvery)
	require.Equal(t, time.Second/(50*catchUp), p.longest(now), "per MiB: four times 50 MiB/s")
	require.Equal(t, time.Second/(50*catchUp), p.longest(now.Add(rateEvery/2)), "it is looked at now and then")
	require.Equal(t, longestPause, p.longest(now.Add(rateEvery)), "the log takes nothing any more")
}

func TestOnlyALogThatTakesAppendsHoldsItsReadersBack(t *testing.T) {
	h := &hosted{opened: time.Now().Add(-time.Hour)}
	require.False(t, h.appending(), "nothing was written yet")
	h.appended.Store(int64(time.Hour))
	require.True(t, h.appending())
	h.appended.Store(int64(time.Hour - 2*pacedTime))
	require.False(t, h.appending())
}
