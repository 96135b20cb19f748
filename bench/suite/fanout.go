package suite

import (
	"context"
	"errors"
	"fmt"

	"strandline.dev/bench/process"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
)

// FanOut is several numbers of tails that follow one log.
type FanOut struct {
	workload.FanOut
	Tails []int
}

// FanOut measures one number of tails after the other, on a new log for each run.
func (s *Suite) FanOut(ctx context.Context, subject Subject, f FanOut) error {
	var errs []error
	f.Processor = process.Usage(subject.Nodes)
	for _, tails := range f.Tails {
		errs = append(errs, s.settle(ctx, f.with(ctx, s, subject, tails), "fan-out", subject.describe(nil), fmt.Sprintf("tails=%d", tails)))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// with measures one number of tails.
func (f FanOut) with(ctx context.Context, s *Suite, subject Subject, tails int) error {
	var rows []report.Row
	var failed error
	for i := 0; i < s.repeats() && failed == nil; i++ {
		failed = s.withLog(ctx, subject, s.newLog("bench-fan-out"), func(target workload.Target, d report.Subject) error {
			bar := s.Bar(label("fan-out", d, fmt.Sprintf("tails: %d", tails), i, s.repeats()), (f.Warmup + f.Duration).Milliseconds(), Milliseconds)
			result, err := f.Run(ctx, target, tails, bar)
			bar.Close()
			if worthARow(ctx, err, result.Count) {
				rows = append(rows, report.FanOut(d, result))
			}
			return err
		})
	}
	return errors.Join(failed, s.result(rows, "append_p99_us"))
}
