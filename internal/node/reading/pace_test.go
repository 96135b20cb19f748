package reading

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadersOfOldRecordsPauseLongerWhereTimersAreLate(t *testing.T) {
	var p Pace
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
	p := pacer{pace: new(Pace), intake: new(Intake)}
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
	p := pacer{pace: new(Pace), intake: new(Intake)}
	p.pace.pause.Store(int64(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.hold(ctx, 1<<20), context.Canceled)
	require.Equal(t, time.Hour, time.Duration(p.pace.pause.Load()), "which tells nothing of the cores")
}

func TestAReaderIsNotHeldBackSoThatItFallsBehindItsLog(t *testing.T) {
	p := pacer{pace: new(Pace), intake: new(Intake)}
	now := time.Now()
	require.Equal(t, longestPause, p.longest(now), "the log takes nothing")
	p.intake.Took(1<<20, now)
	require.Equal(t, longestPause, p.longest(now), "1 MiB/s is less than what it may read anyway")
	p.intake.Took(49<<20, now)
	require.Equal(t, time.Second/(50*catchUp), p.longest(now), "per MiB: four times 50 MiB/s")
}

func TestALogKnowsWhatItTakesASecond(t *testing.T) {
	var i Intake
	at := time.Unix(1000, 0)
	require.Zero(t, i.Rate(at))
	i.Took(30, at)
	require.EqualValues(t, 30, i.Rate(at), "a reader who has just come knows it")
	i.Took(20, at.Add(999*time.Millisecond))
	require.EqualValues(t, 50, i.Rate(at.Add(time.Second)), "nothing yet in this second")
	i.Took(10, at.Add(time.Second))
	require.EqualValues(t, 50, i.Rate(at.Add(time.Second)), "which has only begun")
	i.Took(60, at.Add(time.Second))
	require.EqualValues(t, 70, i.Rate(at.Add(time.Second)))
	require.Zero(t, i.Rate(at.Add(3*time.Second)), "it takes nothing any more")
	i.Took(5, at.Add(9*time.Second))
	require.EqualValues(t, 5, i.Rate(at.Add(9*time.Second)), "what was long ago does not count")
}

// Not beside other tests: the machine has one processor for it.
func TestAReaderYieldsItsProcessorWithinItsTurn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 10 {
		var ran atomic.Bool
		go ran.Store(true)
		turn := turn{begun: time.Now().Add(time.Hour), yielded: time.Now()}
		for yields := 0; !ran.Load(); {
			before := turn.yielded
			require.False(t, turn.over())
			if turn.yielded != before {
				yields++
			}
			require.Less(t, yields, 5, "the runtime sometimes runs the one that yields again first")
		}
	}
	require.True(t, (&turn{begun: time.Now().Add(-turnTime)}).over())
}
