package workload

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

var small = Reads{Records: 1000, ValueBytes: 32}

func filled(t *testing.T) *memoryTarget {
	t.Helper()
	target := &memoryTarget{runLength: 7}
	n, err := small.Fill(t.Context(), target, Silent{})
	require.NoError(t, err)
	require.EqualValues(t, small.Records, n)
	return target
}

func TestReadersTogetherReadEveryRecordOnce(t *testing.T) {
	target := filled(t)
	for _, readers := range []int{1, 3, 4, 1000} {
		var progress counter
		result, err := small.Run(t.Context(), target, readers, &progress)
		require.NoError(t, err)
		require.Equal(t, readers, result.Readers)
		require.EqualValues(t, 1000, result.Records)
		require.EqualValues(t, 1000*32, result.Bytes)
		require.EqualValues(t, 1000, progress.Load())
		require.Zero(t, target.open.Load(), "every reader is closed")
	}
}

func TestALogThatIsFilledIsLeftAlone(t *testing.T) {
	target := filled(t)
	n, err := small.Fill(t.Context(), target, Silent{})
	require.NoError(t, err)
	require.Zero(t, n)
	require.Len(t, target.records(), 1000)
}

func TestFillingGoesOnWhereItStopped(t *testing.T) {
	target := filled(t)
	target.partitions[0].records = target.records()[:123]
	var progress counter
	n, err := small.Fill(t.Context(), target, &progress)
	require.NoError(t, err)
	require.EqualValues(t, 1000-123, n)
	require.EqualValues(t, 1000, progress.Load())
	_, err = small.Run(t.Context(), target, 2, Silent{})
	require.NoError(t, err)
}

func TestALogOfOthersIsNotTouched(t *testing.T) {
	target := &memoryTarget{runLength: 1}
	target.partitions[0].records = [][]byte{[]byte("somebody's order")}
	_, err := small.Fill(t.Context(), target, Silent{})
	require.ErrorIs(t, err, ErrForeign)
	require.Len(t, target.records(), 1)

	_, err = small.Fill(t.Context(), &memoryTarget{partitions: [4]memoryLog{{start: 5}}}, Silent{})
	require.ErrorIs(t, err, ErrForeign)
}

func TestEveryByteOfEveryRecordIsChecked(t *testing.T) {
	for name, damage := range map[string]func([][]byte){
		"a flipped bit":             func(r [][]byte) { r[500][31] ^= 1 },
		"a flipped bit of an index": func(r [][]byte) { r[500][7] ^= 1 },
		"two records swapped":       func(r [][]byte) { r[500], r[501] = r[501], r[500] },
		"a record twice":            func(r [][]byte) { r[500] = r[499] },
		"a record cut short":        func(r [][]byte) { r[500] = r[500][:31] },
	} {
		t.Run(name, func(t *testing.T) {
			target := filled(t)
			damage(target.records())
			_, err := small.Run(t.Context(), target, 1, Silent{})
			require.ErrorContains(t, err, "record 500")
		})
	}
}

func TestALogThatEndsEarlyIsAnError(t *testing.T) {
	target := filled(t)
	target.partitions[0].records = target.records()[:999]
	_, err := small.Run(t.Context(), target, 1, Silent{})
	require.ErrorContains(t, err, "ended at offset 999")
}

func TestAnInterruptedReadReportsWhatItHas(t *testing.T) {
	target := filled(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, err := small.Run(ctx, target, 2, Silent{})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, result.Records)
}
