package workload

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/bench/limit"
)

// explainingTarget says of each append that a third of its time went into one stage and the
// rest into another, beside which something else ran.
type explainingTarget struct{ *memoryTarget }

type explainingSender struct{ Sender }

func (t explainingTarget) Sender(ctx context.Context, s Sending) (Sender, error) {
	sender, err := t.memoryTarget.Sender(ctx, s)
	return explainingSender{sender}, err
}

func (s explainingSender) AppendExplained(ctx context.Context, value []byte) ([]StageTime, error) {
	began := time.Now()
	err := s.Append(ctx, 0, value)
	took := time.Since(began)
	return []StageTime{
		{Stage: "one", Took: took / 3}, {Stage: "two", Start: took / 3, Took: took - took/3}, {Stage: "aside", Start: took / 3, Took: took, Beside: true},
	}, err
}

func TestStagesOfAllMeasuredAppendsAddUp(t *testing.T) {
	target := explainingTarget{&memoryTarget{}}
	a := Appends{Workers: 4, ValueBytes: 64, Sending: Sending{Explain: true}, Span: limit.Span{Warmup: 20 * time.Millisecond, Duration: 20 * time.Millisecond}}
	var result AppendsResult
	var e *Explained
	for ; e == nil || e.Sum.Count == 0; a.Span.Duration *= 2 { // the machine may be busy
		var err error
		result, err = a.Run(t.Context(), target, 2, Silent{})
		require.NoError(t, err)
		e = result.Explained
	}
	require.InDelta(t, result.Count, e.Sum.Count, 4, "of each worker one append may end as the measuring begins or ends")
	require.Equal(t, e.Sum.Count, e.Measured.Count)
	require.Len(t, e.Stages, 3)
	sum := time.Duration(0)
	for _, s := range e.Stages {
		require.Equal(t, e.Sum.Count, s.Count)
		require.Equal(t, s.Count, s.Times.TotalCount())
		if !s.Beside {
			sum += s.Took
		}
	}
	require.Equal(t, e.Sum.Took, sum)
	require.LessOrEqual(t, e.Sum.Took, e.Measured.Took)
	require.Equal(t, e.Stages[0].Took, e.Stages[1].Start)
}

func TestASenderThatExplainsNothingIsLeftOut(t *testing.T) {
	target := &memoryTarget{}
	a := Appends{Workers: 1, ValueBytes: 8, Sending: Sending{Explain: true}, Span: limit.Span{Duration: time.Hour}}
	_, err := a.Run(t.Context(), target, 1, Silent{})
	require.ErrorIs(t, err, ErrUnsupported)
	require.Zero(t, target.open.Load())
}
