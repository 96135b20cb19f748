package suite

import (
	"context"
	"errors"
	"time"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
)

// Mixed measures everything at once, on a new log for each run.
func (s *Suite) Mixed(ctx context.Context, subject Subject, m workload.Mixed) error {
	var (
		rows      []report.Row
		failed    error
		described = subject.describe(nil)
		all       = limit.NewHistogram()
	)
	for i := range s.repeats() {
		failed = s.withLog(ctx, subject, s.newLog("bench-mixed"), func(target workload.Target, d report.Subject) error {
			described = d
			bar := s.Bar(label("mixed", d, "everything at once", i, s.repeats()), (m.Warmup + m.Duration).Milliseconds(), Milliseconds)
			result, err := m.Run(ctx, target, bar)
			bar.Close()
			if !worthARow(ctx, err, result.Count) {
				return err
			}
			rows = append(rows, report.Mixed(d, result))
			all.Merge(result.Append)
			if i > 0 || s.Directory == nil {
				return err
			}
			return errors.Join(err, s.Directory.Curve(overTime(d, result)))
		})
		if failed != nil {
			break
		}
	}
	if err := s.result(rows, "appends_per_s"); err != nil {
		return err
	}
	if err := s.latency("mixed", subject.group(described), described.Name(), all, true); err != nil {
		return err
	}
	return s.settle(ctx, failed, "mixed", described, "everything at once")
}

// overTime is the 99th percentile of each step of the run.
func overTime(d report.Subject, r workload.MixedResult) report.Curve {
	c := report.Curve{Benchmark: "mixed", Kind: report.OverTime, Name: d.Name()}
	for _, m := range r.Series {
		if m.Appends > 0 {
			c.Points = append(c.Points, [2]float64{m.At.Seconds(), float64(m.P99) / float64(time.Microsecond)})
		}
	}
	for _, e := range r.Events {
		c.Events = append(c.Events, report.Mark{At: e.At.Seconds(), What: e.What})
	}
	return c
}
