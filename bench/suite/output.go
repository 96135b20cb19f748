package suite

import (
	"context"
	"errors"

	"github.com/HdrHistogram/hdrhistogram-go"

	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
)

// Output is where the results of measurements go.
type Output struct {
	Writer    report.Writer     // shows the rows
	Directory *report.Directory // keeps everything; nil: nothing is kept
	// Line shows a line that is no result: progress, or what is left out.
	Line func(format string, args ...any)
}

// result writes the single runs and their median; figure is the main one.
// Nothing is written of nothing.
func (s *Output) result(runs []report.Row, figure string) error {
	if len(runs) == 0 {
		return nil
	}
	if s.Directory != nil {
		for i, run := range runs {
			if err := s.Directory.Run(report.Repeat(run, i+1)); err != nil {
				return err
			}
		}
	}
	return s.row(report.Median(runs, figure))
}

func (s *Output) row(r report.Row) error {
	if s.Directory != nil {
		if err := s.Directory.Row(r); err != nil {
			return err
		}
	}
	return s.Writer.Row(r)
}

// latency keeps the latencies of all runs of one thing, and draws them as a line
// in the chart of a group if they are drawn.
func (s *Output) latency(benchmark, group, name string, h *hdrhistogram.Histogram, drawn bool) error {
	if s.Directory == nil {
		return nil
	}
	err := s.Directory.Latency(benchmark, group, name, h)
	if err == nil && drawn {
		err = s.Directory.LatencyCurve(benchmark, group, name, h)
	}
	return err
}

// settle writes a row of a measurement that gave no figure, so that no report
// can hide it: one that a system has no way to do is left out, and that is all;
// one that went wrong has failed, and its error is returned. An interruption is
// neither, and a failure that has a row gets no second one.
func (s *Output) settle(ctx context.Context, err error, benchmark string, subject report.Subject, setting string) error {
	reported := reportedError{}
	switch {
	case err == nil || ctx.Err() != nil || errors.As(err, &reported):
		return err
	case errors.Is(err, workload.ErrUnsupported):
		s.Line("left out: %s, %s: %v", subject.System, setting, err)
		return s.row(report.Skipped(benchmark, subject, setting, err))
	}
	s.Line("FAILED: %s, %s, %s, %s: %v", benchmark, subject.System, subject.Client, setting, err)
	return reportedError{errors.Join(err, s.row(report.Failed(benchmark, subject, setting, err)))}
}

// reportedError is a failure that has a row.
type reportedError struct{ error }

func (e reportedError) Unwrap() error { return e.error }
