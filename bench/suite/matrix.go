package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
)

// Matrix is B4: every configuration of a list, each on a new log.
type Matrix struct {
	workload.Matrix
	Configurations []workload.Configuration
}

// Matrix measures every configuration.
func (s *Suite) Matrix(ctx context.Context, subject Subject, m Matrix) error {
	return m.measure(ctx, s, "matrix", subject, "")
}

// Retention is B5: the configurations on logs that keep their records for
// different times. The rows say how much was trimmed while they were measured.
func (s *Suite) Retention(ctx context.Context, subject Subject, m Matrix, retentions []time.Duration) error {
	var errs []error
	for _, r := range retentions {
		subject.Log.Retention = r
		errs = append(errs, m.measure(ctx, s, "retention", subject, "retention="+days(r)+" "))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// RAMDisk is B6: the configurations on subjects whose files lie in different
// places.
func (s *Suite) RAMDisk(ctx context.Context, subject Subject, m Matrix) error {
	return m.measure(ctx, s, "ramdisk", subject, "")
}

// days writes whole days as such: 168h0m0s says little.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// measure measures one configuration after the other, also after one that went wrong.
func (m Matrix) measure(ctx context.Context, s *Suite, benchmark string, subject Subject, before string) error {
	var errs []error
	for _, c := range m.Configurations {
		setting := before + c.Name
		var (
			rows      []report.Row
			failed    error
			described = subject.describe(nil)
			all       = limit.NewHistogram()
		)
		for i := range s.repeats() {
			failed = s.withLog(ctx, subject, s.newLog("bench-"+benchmark), func(target workload.Target, d report.Subject) error {
				described = d
				bar := s.Bar(label(benchmark, d, setting, i, s.repeats()), (m.Warmup + m.Duration).Milliseconds(), Milliseconds)
				defer bar.Close()
				defer followClock(bar)()
				result, err := m.Run(ctx, target, c, i)
				if !worthARow(ctx, err, result.Count) {
					return err
				}
				all.Merge(result.Latency)
				row := report.Configured(benchmark, d, setting, result)
				if subject.Log.Retention > 0 {
					patient, done := workload.Patient(ctx)
					defer done()
					start, end, e := target.Bounds(patient, 0)
					if e != nil {
						return errors.Join(err, e)
					}
					row = report.Trimmed(row, start, end)
				}
				rows = append(rows, row)
				return err
			})
			if failed != nil {
				break
			}
		}
		if err := s.result(rows, "mb_per_s"); err != nil {
			return err
		}
		// A chart of all configurations would be a tangle, and the rows say the ends.
		if err := s.latency(benchmark, "", described.Name()+", "+setting, all, false); err != nil {
			return err
		}
		errs = append(errs, s.settle(ctx, failed, benchmark, described, setting))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// followClock moves a bar on by the milliseconds that pass, until stop.
func followClock(bar Bar) (stop func()) {
	const step = 100 * time.Millisecond
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(step)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				bar.Add(step.Milliseconds())
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}
