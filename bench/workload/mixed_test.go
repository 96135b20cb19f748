package workload

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var busy = Mixed{
	Writers: 2, Workers: 4, ValueBytes: 32, Tails: 2, Boots: 1, TrimEvery: 5 * time.Millisecond, Keep: 10,
	Duration: 60 * time.Millisecond, Step: 10 * time.Millisecond,
}

func TestTailsSeeAllThatWasWrittenWhileTheLogIsTrimmed(t *testing.T) {
	// For longer and longer, until all that happens from time to time has: the machine may be busy.
	var target *memoryTarget
	var result MixedResult
	for w := busy; result.Trims == 0 || len(result.Series) == 0 || len(result.Events) == 0 || result.Count == 0 || result.Deliver.TotalCount() == 0; w.Duration *= 2 {
		var err error
		target = &memoryTarget{runLength: 5}
		result, err = w.Run(t.Context(), target, Silent{})
		require.NoError(t, err)
	}
	require.Positive(t, result.Count)
	require.Equal(t, result.Count, result.Append.TotalCount())
	require.Equal(t, 2, result.Tails, "both have the writers' hashes")
	require.Positive(t, result.Deliver.TotalCount())
	require.Zero(t, target.open.Load(), "every connection is closed")
}

func TestATailThatIsGivenAnotherOrderSaysSo(t *testing.T) {
	w := busy
	w.Duration = time.Hour
	_, err := w.Run(t.Context(), &memoryTarget{swap: true, runLength: 5}, Silent{})
	require.ErrorContains(t, err, "got record")
}

func TestAMixedRunEndsWithItsFirstFailure(t *testing.T) {
	refused := errors.New("refused")
	w := busy
	w.Duration = time.Hour
	_, err := w.Run(t.Context(), &memoryTarget{appendFail: refused}, Silent{})
	require.ErrorIs(t, err, refused)
}

func TestAMixedRunThatIsInterruptedReportsWhatItHas(t *testing.T) {
	ctx, target := interruptedAfter(t, 100)
	target.runLength = 5
	w := busy
	w.Duration = time.Hour
	result, err := w.Run(ctx, target, Silent{})
	require.ErrorIs(t, err, context.Canceled)
	require.Positive(t, result.Count)
}
