package suite

import (
	"context"
	"errors"
	"fmt"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
)

// Reads is B2 with several numbers of readers.
type Reads struct {
	workload.Reads
	Readers []int
	Log     string
	Keep    bool // leave the log for the next run
	Cat     bool // read the files without a log in between, too
}

// Reads fills the log, if it is not full from an earlier run, and reads it. If
// the subject's files are within reach, everything is measured twice: from the
// disk and from the kernel's cache. It returns MiB/s for each number of
// readers, from the cache. Others then read the same log, from the cache.
func (s *Suite) Reads(ctx context.Context, subject Subject, r Reads, others ...Subject) (map[int]float64, error) {
	rates := make(map[int]float64, len(r.Readers))
	err := s.reads(ctx, subject, r, rates, others)
	return rates, s.settle(ctx, err, "read", subject.describe(nil), "")
}

func (s *Suite) reads(ctx context.Context, subject Subject, r Reads, rates map[int]float64, others []Subject) error {
	system, err := s.open(subject.Address, subject.Options)
	if err != nil {
		return err
	}
	defer system.Close()
	target, err := system.Open(ctx, r.Log)
	if errors.Is(err, workload.ErrNoLog) {
		if err := system.Create(ctx, r.Log, subject.Log); err != nil {
			return err
		}
		target, err = system.Open(ctx, r.Log)
	}
	if err != nil {
		return err
	}
	defer target.Close()
	if !r.Keep {
		defer func() { _ = s.remove(ctx, system, r.Log) }() // the results are there: a log that stays does not harm them
	}
	d := subject.describe(target)
	bar := s.Bar(label("fill the log", d, r.Log, 0, 1), r.Records, Records)
	_, err = r.Fill(ctx, target, bar)
	bar.Close()
	if err != nil {
		return err
	}
	files, err := s.files(subject)
	if err != nil {
		return err
	}
	caches := []report.Cache{report.Uncached, report.Cached}
	if files == nil {
		caches = []report.Cache{report.Unknown}
	}
	var errs []error
	for _, cache := range caches {
		// With several caches the last one counts for the ratios: the cached.
		errs = append(errs, s.readBy(ctx, target, d, r, files, cache, rates))
	}
	for _, other := range others {
		errs = append(errs, s.readByOther(ctx, other, r, files, caches[len(caches)-1]))
	}
	if files != nil && r.Cat {
		for _, cache := range caches {
			errs = append(errs, s.CatFiles(ctx, files, cache))
		}
	}
	return errors.Join(errs...)
}

// readByOther reads a log that is there by another client.
func (s *Suite) readByOther(ctx context.Context, subject Subject, r Reads, files []string, cache report.Cache) error {
	system, err := s.open(subject.Address, subject.Options)
	if err != nil {
		return s.settle(ctx, err, "read", subject.describe(nil), "")
	}
	defer system.Close()
	target, err := system.Open(ctx, r.Log)
	if err != nil {
		return s.settle(ctx, err, "read", subject.describe(nil), "")
	}
	defer target.Close()
	return s.readBy(ctx, target, subject.describe(target), r, files, cache, map[int]float64{})
}

// readBy measures every number of readers, also after one that went wrong.
func (s *Suite) readBy(ctx context.Context, target workload.Target, d report.Subject, r Reads, files []string, cache report.Cache, rates map[int]float64) error {
	var errs []error
	for _, n := range r.Readers {
		if ctx.Err() != nil {
			errs = append(errs, ctx.Err())
			break
		}
		rate, err := s.readTimes(ctx, target, d, r, n, files, cache)
		rates[n] = rate
		errs = append(errs, s.settle(ctx, err, "read", d, fmt.Sprintf("readers: %d, %s", n, cache)))
	}
	return errors.Join(errs...)
}

// readTimes measures one number of readers, and returns MiB/s.
func (s *Suite) readTimes(ctx context.Context, target workload.Target, d report.Subject, r Reads, readers int, files []string, cache report.Cache) (float64, error) {
	var (
		rows   []report.Row
		failed error
	)
	for i := range s.repeats() {
		if failed = PrepareCache(ctx, files, cache); failed != nil {
			break
		}
		bar := s.Bar(label("read", d, fmt.Sprintf("readers: %d, %s", readers, cache), i, s.repeats()), r.Records, Records)
		result, err := r.Run(ctx, target, readers, bar)
		bar.Close()
		if worthARow(ctx, err, result.Records) {
			rows = append(rows, report.Read(d, result, cache))
		}
		if failed = err; err != nil {
			break
		}
	}
	if err := s.result(rows, "mib_per_s"); err != nil {
		return 0, err
	}
	rate, _ := report.Median(rows, "mib_per_s").Number("mib_per_s")
	return rate, failed
}

// files lists the subject's segments, or nothing if they are out of reach.
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
