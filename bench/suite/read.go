package suite

import (
	"context"
	"errors"
	"fmt"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/process"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
)

// Reads is B2 with several numbers of readers.
type Reads struct {
	workload.Reads
	Readers []int
	Log     string
	Keep    bool           // leave the log for the next run
	Caches  []report.Cache // where the bytes come from, if the files are within reach; nil: the disk, then the cache
	Cat     bool           // read the files without a log in between, too
}

// Reads fills the log, if it is not full from an earlier run, and reads it. If
// the subject's files are within reach, everything is measured twice: from the
// disk and from the kernel's cache. It returns MiB/s for each number of
// readers, from the cache.
func (s *Suite) Reads(ctx context.Context, subject Subject, r Reads) (map[int]float64, error) {
	rates := make(map[int]float64, len(r.Readers))
	err := s.reads(ctx, subject, r, rates)
	return rates, s.settle(ctx, err, "read", subject.describe(nil), "")
}

func (s *Suite) reads(ctx context.Context, subject Subject, r Reads, rates map[int]float64) error {
	l, err := s.openLong(ctx, subject, r)
	if err != nil {
		return err
	}
	defer l.close(ctx)
	caches := r.Caches
	switch {
	case l.files == nil:
		caches = []report.Cache{report.Unknown}
	case caches == nil:
		caches = []report.Cache{report.Uncached, report.Cached}
	}
	var errs []error
	for _, cache := range caches {
		// With several caches the last one counts for the ratios: the cached.
		for _, n := range r.Readers {
			if ctx.Err() != nil {
				return errors.Join(append(errs, ctx.Err())...)
			}
			rates[n], err = l.readTimes(ctx, n, cache)
			errs = append(errs, s.settle(ctx, err, "read", l.subject, fmt.Sprintf("readers: %d, %s", n, cache)))
		}
	}
	if l.files != nil && r.Cat {
		for _, cache := range caches {
			errs = append(errs, s.CatFiles(ctx, l.files, cache))
		}
	}
	return errors.Join(errs...)
}

// readTimes measures one number of readers, and returns MiB/s.
func (l *longLog) readTimes(ctx context.Context, readers int, cache report.Cache) (float64, error) {
	var (
		rows   []report.Row
		failed error
	)
	for i := 0; i < l.suite.repeats() && failed == nil; i++ {
		if failed = PrepareCache(ctx, l.files, cache); failed == nil {
			rows, failed = l.readOnce(ctx, readers, cache, rows)
		}
	}
	if err := l.suite.result(rows, "mib_per_s"); err != nil {
		return 0, err
	}
	rate, _ := report.Median(rows, "mib_per_s").Number("mib_per_s")
	return rate, failed
}

// readOnce adds the row of one more run to those that there are.
func (l *longLog) readOnce(ctx context.Context, readers int, cache report.Cache, rows []report.Row) ([]report.Row, error) {
	bar := l.suite.Bar(label("read", l.subject, fmt.Sprintf("readers: %d, %s", readers, cache), len(rows), l.suite.repeats()), l.Records, Records)
	result, err := l.Run(ctx, l.target, readers, bar)
	bar.Close()
	if worthARow(ctx, err, result.Records) {
		rows = append(rows, report.Read(l.subject, result, cache))
	}
	return rows, err
}

// ReadsInTurn reads the logs of several subjects from the kernel's cache: in each repeat
// all of them once, so that an hour in which the machine is slow counts for all. The rows
// are the medians of each. Subjects of one system share a log, which the first of them
// fills.
func (s *Suite) ReadsInTurn(ctx context.Context, subjects []Subject, r Reads) error {
	var (
		logs []*longLog
		errs []error
	)
	defer func() {
		for _, l := range logs {
			l.close(ctx)
		}
	}()
	for _, subject := range subjects {
		l, err := s.openLong(ctx, subject, r)
		if err == nil {
			logs = append(logs, l)
			err = PrepareCache(ctx, l.files, report.Cached)
		}
		errs = append(errs, s.settle(ctx, err, "read", subject.describe(nil), "in turn"))
	}
	for _, n := range r.Readers {
		rows, failed := make([][]report.Row, len(logs)), make([]error, len(logs))
		for range s.repeats() {
			for i, l := range logs {
				if failed[i] == nil && ctx.Err() == nil {
					rows[i], failed[i] = l.readOnce(ctx, n, l.cached(), rows[i])
				}
			}
		}
		for i, l := range logs {
			errs = append(errs, s.result(rows[i], "mib_per_s"), s.settle(ctx, failed[i], "read", l.subject, fmt.Sprintf("readers: %d, in turn", n)))
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// longLog is a log that has been filled to be read.
type longLog struct {
	workload.Reads
	suite   *Suite
	system  workload.System
	target  workload.Target
	subject report.Subject
	files   []string // nil: cannot be read from here
	name    string
	keep    bool
}

func (s *Suite) openLong(ctx context.Context, subject Subject, r Reads) (*longLog, error) {
	system, err := s.open(subject.Address, subject.Options)
	if err != nil {
		return nil, err
	}
	l := &longLog{Reads: r.Reads, suite: s, system: system, name: r.Log, keep: r.Keep}
	if err := l.fill(ctx, subject); err != nil {
		l.close(ctx)
		return nil, err
	}
	if l.files, err = s.files(subject); err != nil {
		l.close(ctx)
		return nil, err
	}
	l.Processor = process.Usage(subject.Nodes)
	return l, nil
}

func (l *longLog) fill(ctx context.Context, subject Subject) (err error) {
	l.target, err = l.system.Open(ctx, l.name)
	if errors.Is(err, workload.ErrNoLog) {
		if err := l.system.Create(ctx, l.name, subject.Log); err != nil {
			return err
		}
		l.target, err = l.system.Open(ctx, l.name)
	}
	if err != nil {
		return err
	}
	l.subject = subject.describe(l.target)
	bar := l.suite.Bar(label("fill the log", l.subject, l.name, 0, 1), l.Records, Records)
	defer bar.Close()
	_, err = l.Fill(ctx, l.target, bar)
	return err
}

// cached is what is said of a log that was brought into the kernel's cache.
func (l *longLog) cached() report.Cache {
	if l.files == nil {
		return report.Unknown
	}
	return report.Cached
}

func (l *longLog) close(ctx context.Context) {
	if l.target != nil {
		_ = l.target.Close() // it was only read
	}
	if !l.keep {
		_ = l.suite.remove(ctx, l.system, l.name) // the results are there: a log that stays does not harm them
	}
	_ = l.system.Close()
}

// files lists the subject's segments, or nothing if they cannot be read from here.
func (s *Suite) files(subject Subject) ([]string, error) {
	if subject.Files == "" {
		s.Line("%s: the files are out of reach, so the cache is as it happens to be", subject.name())
		return nil, nil
	}
	files, err := limit.Segments(subject.Files)
	if err == nil && len(files) == 0 {
		s.Line("%s: no segments below %s, so the cache is as it happens to be", subject.name(), subject.Files)
	}
	return files, err
}

// CatFiles measures reading files without a log in between.
func (s *Suite) CatFiles(ctx context.Context, files []string, cache report.Cache) error {
	if err := PrepareCache(ctx, files, cache); err != nil {
		return err
	}
	moved, err := limit.Cat(ctx, files)
	if err != nil {
		return err
	}
	return s.row(report.Cat(moved, cache))
}

// PrepareCache drops the files from the kernel's cache, or brings them in.
func PrepareCache(ctx context.Context, files []string, cache report.Cache) error {
	switch cache {
	case report.Uncached:
		return limit.Forget(files)
	case report.Cached:
		_, err := limit.Cat(ctx, files)
		return err
	}
	return nil
}
