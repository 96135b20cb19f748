package suite

import (
	"context"
	"errors"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/process"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
)

// Appends is B1 over several connection counts.
type Appends struct {
	workload.Appends
	Connections []int
	Log         string
}

// Appends measures one connection count after the other, and returns the
// median of appends per second for each. An interrupted run returns what it has.
func (s *Suite) Appends(ctx context.Context, subject Subject, a Appends) (map[int]float64, error) {
	rates := make(map[int]float64, len(a.Connections))
	a.Processor = process.Usage(subject.Nodes)
	err := s.withLog(ctx, subject, a.Log, func(target workload.Target, d report.Subject) error {
		var errs []error
		for _, n := range a.Connections {
			rate, err := a.over(ctx, s, target, subject.group(d), d, n)
			rates[n] = rate
			errs = append(errs, s.settle(ctx, err, "appends", d, fmt.Sprintf("connections=%d", n)))
			if ctx.Err() != nil {
				break
			}
		}
		return errors.Join(errs...)
	})
	return rates, s.settle(ctx, err, "appends", subject.describe(nil), "")
}

// over measures one connection count.
func (a Appends) over(ctx context.Context, s *Suite, target workload.Target, group string, d report.Subject, connections int) (float64, error) {
	var (
		rows   []report.Row
		stages = map[string][]report.Row{} // the rows of a stage, a run each
		order  []string                    // of stages
		failed error
		all    = limit.NewHistogram()
	)
	for i := range s.repeats() {
		setting := fmt.Sprintf("connections: %d", connections)
		bar := s.Bar(label("appends", d, setting, i, s.repeats()), (a.Warmup + a.Duration).Milliseconds(), Milliseconds)
		result, err := a.Run(ctx, target, connections, bar)
		bar.Close()
		if err == nil && result.Count == 0 {
			err = fmt.Errorf("no append was acknowledged in %v", a.Duration)
		}
		if worthARow(ctx, err, result.Count) {
			rows = append(rows, report.Appends(d, result))
			if result.Explained != nil {
				for _, row := range report.Stages(d, connections, result.Explained) {
					name := row.Text("stage")
					if stages[name] == nil {
						order = append(order, name)
					}
					stages[name] = append(stages[name], row)
				}
			}
			all.Merge(result.Latency)
		}
		if err != nil {
			failed = err
			break
		}
	}
	if err := s.result(rows, "appends_per_s"); err != nil {
		return 0, err
	}
	for _, name := range order {
		if err := s.result(stages[name], "mean_us"); err != nil {
			return 0, err
		}
	}
	rate := 0.0
	if len(rows) > 0 {
		rate, _ = report.Median(rows, "appends_per_s").Number("appends_per_s")
		if err := a.latency(s, group, d, connections, all); err != nil {
			return rate, err
		}
	}
	return rate, failed
}

func (a Appends) latency(s *Suite, group string, d report.Subject, connections int, all *hdrhistogram.Histogram) error {
	name := fmt.Sprintf("%s, connections: %d", d.Name(), connections)
	if a.PerSecond > 0 {
		group += fmt.Sprintf(", %.0f/s on a schedule", a.PerSecond)
	}
	// A chart of all connection counts would be a tangle: the ends will do.
	end := connections == a.Connections[0] || connections == a.Connections[len(a.Connections)-1]
	return s.latency("appends", group, name, all, end)
}
