package workload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/bench/limit"
)

var thousand = Pipeline{Records: 1000, ValueBytes: 32, Span: limit.Span{Duration: time.Hour}, Check: true}

func TestEverythingSentIsReadBack(t *testing.T) {
	target := &memoryTarget{runLength: 7}
	var last Sofar
	result, err := thousand.Run(t.Context(), target, time.Hour, func(s Sofar) { last = s })
	require.NoError(t, err)
	require.True(t, result.Checked)
	require.EqualValues(t, 1000, result.Sent)
	require.EqualValues(t, 1000, result.Acked)
	require.EqualValues(t, 32_000, result.Bytes)
	require.EqualValues(t, 1000, result.Latency.TotalCount())
	require.EqualValues(t, 1000, last.Acked, "the last look sees the end")
	require.Zero(t, target.open.Load(), "every connection is closed")
}

func TestALogThatReordersIsFoundOut(t *testing.T) {
	result, err := thousand.Run(t.Context(), &memoryTarget{swap: true}, 0, nil)
	require.ErrorContains(t, err, "in another order")
	require.False(t, result.Checked)
}

func TestALogThatHoldsMoreIsFoundOut(t *testing.T) {
	target := &memoryTarget{}
	require.NoError(t, target.append(0, []byte("somebody else's")))
	_, err := thousand.Run(t.Context(), target, 0, nil)
	require.ErrorContains(t, err, "1000 records were written, but 1001 were read")
}

func TestWhatTheLeaderAloneHasAcknowledgedIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := thousand
		w.Sending.Acks = AcksLeader
		result, err := w.Run(t.Context(), &memoryTarget{uncommitted: 100, commits: true}, 0, nil)
		require.NoError(t, err)
		require.True(t, result.Checked)
	})
}

func TestWhatIsNeverCommittedIsALoss(t *testing.T) {
	for _, acks := range []Acks{AcksAll, AcksLeader} {
		synctest.Test(t, func(t *testing.T) {
			w := thousand
			w.Sending.Acks = acks
			begin := time.Now()
			result, err := w.Run(t.Context(), &memoryTarget{uncommitted: 3}, 0, nil)
			require.ErrorContains(t, err, "1000 records were written, but 997 were read")
			require.False(t, result.Checked)
			require.Equal(t, acks == AcksLeader, time.Since(begin) >= commitPatience, "what all have acknowledged must be there at once")
		})
	}
}

func TestPartitionersSpreadOverAllPartitions(t *testing.T) {
	for _, p := range Partitioners {
		target := &memoryTarget{}
		w := thousand
		w.Sending.Partitions, w.Partitioner, w.Partition = 4, p, 2
		_, err := w.Run(t.Context(), target, 0, nil)
		require.NoError(t, err)
		for i := range target.partitions {
			if p == PartitionManual {
				require.Equal(t, i == 2, len(target.partitions[i].records) > 0)
			} else {
				require.Greater(t, len(target.partitions[i].records), 100, "%s: partition %d", p, i)
			}
		}
	}
}

func TestARefusalEndsTheSending(t *testing.T) {
	refused := errors.New("refused")
	target := &memoryTarget{appendFail: refused}
	result, err := thousand.Run(t.Context(), target, 0, nil)
	require.ErrorIs(t, err, refused)
	require.EqualValues(t, 1, result.Sent)
	require.Zero(t, target.open.Load())
}

func TestTheScheduleIsKept(t *testing.T) {
	w := thousand
	w.Records, w.PerSecond = 10, 200
	begin := time.Now()
	_, err := w.Run(t.Context(), &memoryTarget{}, 0, nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(begin), 45*time.Millisecond, "the tenth is due after nine intervals of 5 ms")
}

func TestARunThatIsInterruptedReportsWhatItHas(t *testing.T) {
	ctx, target := interruptedAfter(t, 100)
	w := thousand
	w.Records = 1 << 60
	result, err := w.Run(ctx, target, 0, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Positive(t, result.Acked)
}
