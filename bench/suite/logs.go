package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/process"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
)

// Logs is appends spread over different numbers of logs, on one connection of the client. What
// the client has beside it for each log is its own business.
type Logs struct {
	workload.Appends
	Numbers []int
}

// Logs measures one number of logs after the other. Each has logs of its own.
func (s *Suite) Logs(ctx context.Context, subject Subject, l Logs) error {
	var errs []error
	l.Processor = process.Usage(subject.Nodes)
	for _, n := range l.Numbers {
		errs = append(errs, s.settle(ctx, l.over(ctx, s, subject, n), "logs", subject.describe(nil), fmt.Sprintf("logs=%d", n)))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// over measures one number of logs.
func (l Logs) over(ctx context.Context, s *Suite, subject Subject, logs int) error {
	var rows []report.Row
	subject.Log.Partitions, l.Logs = logs, logs
	begin := time.Now()
	return s.withLog(ctx, subject, s.newLog("bench-logs"), func(target workload.Target, d report.Subject) error {
		created := time.Since(begin)
		all := limit.NewHistogram()
		var failed error
		for i := range s.repeats() {
			bar := s.Bar(label("logs", d, fmt.Sprintf("logs: %d", logs), i, s.repeats()), (l.Warmup + l.Duration).Milliseconds(), Milliseconds)
			result, err := l.Run(ctx, target, 1, bar)
			bar.Close()
			if err == nil && result.Count == 0 {
				err = fmt.Errorf("no append was acknowledged in %v", l.Duration)
			}
			if worthARow(ctx, err, result.Count) {
				rows = append(rows, report.Logs(d, result, created))
				all.Merge(result.Latency)
			}
			if err != nil {
				failed = err
				break
			}
		}
		if err := s.result(rows, "appends_per_s"); err != nil {
			return err
		}
		return errors.Join(failed, s.latency("logs", subject.group(d), fmt.Sprintf("%s, logs: %d", d.Name(), logs), all, len(rows) > 0))
	})
}
