package workload

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/bench/limit"
)

func TestAppendsOfEveryWorkerAreCountedAndTimed(t *testing.T) {
	var target *memoryTarget
	var result AppendsResult
	a := Appends{Workers: 8, ValueBytes: 64, Span: limit.Span{Warmup: 20 * time.Millisecond, Duration: 20 * time.Millisecond}}
	for ; result.Count == 0; a.Span.Duration *= 2 { // the machine may be busy
		require.Less(t, a.Span.Duration, time.Minute)
		target = &memoryTarget{}
		var err error
		result, err = a.Run(t.Context(), target, 3, Silent{})
		require.NoError(t, err)
	}
	require.Equal(t, 3, result.Connections)
	require.EqualValues(t, 3, target.opened.Load())
	require.Zero(t, target.open.Load(), "every connection is closed")
	require.Less(t, result.Count, int64(len(target.records())), "warm-up does not count")
	require.Equal(t, result.Count, result.Latency.TotalCount())
	require.InEpsilon(t, result.PerSecond()*64/(1<<20), result.MiBPerSecond(), 1e-9)
	for _, record := range target.records() {
		require.Len(t, record, 64)
	}
}

func TestAppendsGoToAllLogs(t *testing.T) {
	target := &memoryTarget{}
	a := Appends{Workers: 2, ValueBytes: 8, Logs: len(target.partitions), Span: limit.Span{Duration: 20 * time.Millisecond}}
	for range 100 { // the machine may be busy
		result, err := a.Run(t.Context(), target, 1, Silent{})
		require.NoError(t, err)
		require.Equal(t, len(target.partitions), result.Logs)
		require.Equal(t, len(target.partitions), target.sending.Partitions)
		if !slices.ContainsFunc(target.partitions[:], func(l memoryLog) bool { return len(l.records) == 0 }) {
			return
		}
	}
	t.Fatal("a log has no records")
}

func TestAWorkerThatFailsEndsTheRun(t *testing.T) {
	refused := errors.New("refused")
	target := &memoryTarget{appendFail: refused}
	a := Appends{Workers: 2, ValueBytes: 8, Span: limit.Span{Duration: time.Hour}}
	_, err := a.Run(t.Context(), target, 1, Silent{})
	require.ErrorIs(t, err, refused)
	require.Zero(t, target.open.Load())
}

func TestAnInterruptedRunReportsWhatItHas(t *testing.T) {
	target := &memoryTarget{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := Appends{Workers: 2, ValueBytes: 8, Span: limit.Span{Duration: time.Hour}}
	result, err := a.Run(ctx, target, 2, &interrupter{target: target, interrupt: cancel})
	require.ErrorIs(t, err, context.Canceled)
	require.Positive(t, result.Count)
	require.Less(t, result.Elapsed, time.Minute)
}

// interrupter interrupts a run once an append has ended between two of its ticks.
type interrupter struct {
	target    *memoryTarget
	ticked    bool
	before    int64
	interrupt func()
}

func (i *interrupter) Add(int64) {
	_, now, _ := i.target.Bounds(context.Background(), 0)
	if i.ticked && now > i.before {
		i.interrupt()
	}
	i.ticked, i.before = true, now
}

func TestMoreConnectionsThanWorkersMakeNoSense(t *testing.T) {
	for _, connections := range []int{-1, 0, 9} {
		_, err := Appends{Workers: 8}.Run(t.Context(), &memoryTarget{}, connections, Silent{})
		require.ErrorContains(t, err, "need as many workers")
	}
}

func TestProgressAddsUpToTheTimeAsked(t *testing.T) {
	var progress counter
	a := Appends{Workers: 1, ValueBytes: 8, Span: limit.Span{Duration: 3*progressEvery + progressEvery/2}}
	_, err := a.Run(t.Context(), &memoryTarget{}, 1, &progress)
	require.NoError(t, err)
	require.Positive(t, progress.Load())
	require.LessOrEqual(t, progress.Load(), a.Duration.Milliseconds())
}
