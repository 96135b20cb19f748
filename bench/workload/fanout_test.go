package workload

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/bench/limit"
)

var fanOut = FanOut{Workers: 4, Writers: 2, ValueBytes: 32, PerSecond: 2000, Span: limit.Span{Warmup: 10 * time.Millisecond, Duration: 50 * time.Millisecond}}

// fanOutUntil repeats a run for longer and longer until it has measured an append: the machine may be busy.
func fanOutUntil(t *testing.T, target Target, tails int) FanOutResult {
	for f := fanOut; ; f.Duration *= 2 {
		require.Less(t, f.Duration, time.Minute)
		result, err := f.Run(t.Context(), target, tails, Silent{})
		require.NoError(t, err)
		if result.Count > 0 {
			return result
		}
	}
}

func TestEveryTailHasEveryMeasuredRecord(t *testing.T) {
	target := &memoryTarget{runLength: 3}
	require.NoError(t, target.append(0, []byte("somebody else's, before the end")))
	const tails = 5
	result := fanOutUntil(t, target, tails)
	require.Zero(t, target.open.Load(), "every connection is closed")
	require.GreaterOrEqual(t, result.All.TotalCount(), result.Count)
	require.Equal(t, tails*result.All.TotalCount(), result.Deliver.TotalCount())
	require.GreaterOrEqual(t, result.All.Max(), result.Deliver.ValueAtQuantile(50))
}

func TestAppendsWithoutTailsAreMeasuredToo(t *testing.T) {
	result := fanOutUntil(t, &memoryTarget{}, 0)
	require.Positive(t, result.Append.ValueAtQuantile(99))
	require.Zero(t, result.Deliver.TotalCount())
}

// lossyTarget has readers that pass over a record.
type lossyTarget struct{ *memoryTarget }

type lossyReader struct {
	Reader
	passed bool
}

func (t lossyTarget) Reader(ctx context.Context, r Range) (Reader, error) {
	reader, err := t.memoryTarget.Reader(ctx, r)
	return &lossyReader{Reader: reader}, err
}

func (r *lossyReader) Next(ctx context.Context) ([][]byte, error) {
	values, err := r.Reader.Next(ctx)
	if !r.passed && len(values) > 0 {
		r.passed = true
		return r.Next(ctx)
	}
	return values, err
}

func TestARecordThatATailMissesFailsTheRun(t *testing.T) {
	f := fanOut
	f.Patience = 100 * time.Millisecond
	_, err := f.Run(t.Context(), lossyTarget{&memoryTarget{}}, 2, Silent{})
	require.ErrorContains(t, err, "have not reached all 2 tails")
}

func TestATailReadsOnlyWhatTheRunHasAppended(t *testing.T) {
	run := newFanOutRun(fanOut, 1)
	require.ErrorIs(t, run.deliver([][]byte{make([]byte, 7)}, &run.counted[0]), ErrForeign)
	far := make([]byte, fanOut.ValueBytes)
	for i := range 8 {
		far[i] = math.MaxUint8
	}
	require.ErrorIs(t, run.deliver([][]byte{far}, &run.counted[0]), ErrForeign)
}

func TestAFanOutThatCannotAppendFails(t *testing.T) {
	refused := errors.New("refused")
	target := &memoryTarget{appendFail: refused}
	f := fanOut
	f.Duration = time.Hour
	_, err := f.Run(t.Context(), target, 1, Silent{})
	require.ErrorIs(t, err, refused)
	require.Zero(t, target.open.Load())
}

func TestAFanOutWithoutARateOrRoomForItsNumbersIsRefused(t *testing.T) {
	for _, change := range []func(*FanOut){
		func(f *FanOut) { f.PerSecond = 0 },
		func(f *FanOut) { f.Writers = 5 },
		func(f *FanOut) { f.ValueBytes = 15 },
	} {
		f := fanOut
		change(&f)
		_, err := f.Run(t.Context(), &memoryTarget{}, 1, Silent{})
		require.Error(t, err)
	}
}
