package workload

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/bench/limit"
)

// hanging is a server that takes a second for each append, and answers nothing
// any more, not even to a goodbye, after some of them.
func hanging(answers int64) *memoryTarget {
	var asked atomic.Int64
	return &memoryTarget{closing: make(chan struct{}), appending: func(ctx context.Context) error {
		if asked.Add(1) > answers {
			<-ctx.Done()
			return ctx.Err()
		}
		time.Sleep(time.Second)
		return nil
	}}
}

func TestAnInterruptedRunIsOverSoonAlsoIfTheServerHangs(t *testing.T) {
	hour := limit.Span{Duration: time.Hour}
	for name, run := range map[string]func(context.Context, Target) (int64, error){
		"appends": func(ctx context.Context, target Target) (int64, error) {
			r, err := Appends{Workers: 2, ValueBytes: 8, Span: hour}.Run(ctx, target, 2, Silent{})
			return r.Count, err
		},
		"appends on a schedule": func(ctx context.Context, target Target) (int64, error) {
			r, err := Appends{Workers: 2, ValueBytes: 8, PerSecond: 0.001, Span: hour}.Run(ctx, target, 2, Silent{})
			return r.Count + 1, err // worker 0 alone has had its turn
		},
		"pipeline": func(ctx context.Context, target Target) (int64, error) {
			r, err := Pipeline{Records: 1 << 60, ValueBytes: 16, Span: hour}.Run(ctx, target, 0, nil)
			return r.Count, err
		},
		"matrix, one by one": func(ctx context.Context, target Target) (int64, error) {
			r, err := Matrix{Samples: Samples(), Span: hour}.Run(ctx, target, Configuration{Sync: true}, 0)
			return r.Count, err
		},
		"mixed": func(ctx context.Context, target Target) (int64, error) {
			r, err := Mixed{Writers: 2, Workers: 2, ValueBytes: 32, Tails: 1, Duration: time.Hour}.Run(ctx, target, Silent{})
			return r.Count, err
		},
		"reads": func(ctx context.Context, target Target) (int64, error) {
			return Reads{Records: 10, ValueBytes: 16}.Fill(ctx, target, Silent{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				target := hanging(2)
				const interrupted = 5 * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), interrupted)
				defer cancel()
				begin := time.Now()
				count, err := run(ctx, target)
				require.Error(t, err)
				require.Positive(t, count, "what was measured until then is there")
				require.LessOrEqual(t, time.Since(begin), interrupted+2*patience)
				close(target.closing)
			})
		})
	}
}

func TestAnAppendThatFailsAfterTheEndFailsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		var asked atomic.Int64
		target := &memoryTarget{appending: func(context.Context) error {
			if asked.Add(1) == 1 {
				time.Sleep(time.Second)
				return nil
			}
			time.Sleep(time.Minute)
			return refused
		}}
		result, err := Appends{Workers: 1, ValueBytes: 8, Span: limit.Span{Duration: 3 * time.Second}}.Run(t.Context(), target, 1, Silent{})
		require.ErrorIs(t, err, refused)
		require.EqualValues(t, 1, result.Count)
	})
}

func TestAnAppendThatIsNeverAnsweredFailsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := hanging(1)
		close(target.closing)
		begin := time.Now()
		span := limit.Span{Duration: 3 * time.Second}
		result, err := Appends{Workers: 1, ValueBytes: 8, Span: span}.Run(t.Context(), target, 1, Silent{})
		require.ErrorContains(t, err, "was not answered within 1m0s")
		require.EqualValues(t, 1, result.Count)
		require.Equal(t, span.Duration+answerTime, time.Since(begin))
	})
}

func TestAnAppendThatWasBegunIsFinishedAfterAnInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := hanging(100)
		close(target.closing)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		_, err := Appends{Workers: 1, ValueBytes: 8, Span: limit.Span{Duration: time.Hour}}.Run(ctx, target, 1, Silent{})
		require.Equal(t, context.DeadlineExceeded, err, "and nothing else went wrong")
		require.Len(t, target.records(), 2)
	})
}
