package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/bench/limit"
)

// Reads is B2, long reads: a log of many records is read from one end to the
// other, by one reader or by several that begin at different places and
// together read everything once. Every record is compared with what was written,
// except by a BlockReader, which sees none.
type Reads struct {
	Records    int64
	ValueBytes int // 16 at least
	// Processor is as in limit.Span.
	Processor func() (client, servers time.Duration)
}

// ReadResult is what a number of readers gave.
type ReadResult struct {
	Readers int
	Records int64
	limit.Throughput
	// ClientTime and ServerTime are the processor time taken; below 0: not known.
	ClientTime, ServerTime time.Duration
}

// RecordsPerSecond is the rate of all readers together.
func (r ReadResult) RecordsPerSecond() float64 {
	return limit.Rate{Count: r.Records, Elapsed: r.Elapsed}.PerSecond()
}

// ErrForeign reports a log whose records are not those that Fill writes.
var ErrForeign = errors.New("the log holds other records than this benchmark writes")

// Validate returns an error that names what makes no sense with any target.
func (w Reads) Validate() error { return checkable(w.ValueBytes, valueMin) }

// Fill appends what the log lacks of the records and reports how many that were;
// progress gets the records. A log that was filled before, with values of
// the same size, is left as it is. No other program may append to it.
func (w Reads) Fill(ctx context.Context, target Target, progress Progress) (int64, error) {
	if err := w.Validate(); err != nil {
		return 0, err
	}
	start, end, err := target.Bounds(ctx, 0)
	if err != nil {
		return 0, err
	}
	if start > 0 {
		return 0, fmt.Errorf("%w: it begins at offset %d", ErrForeign, start)
	}
	values := newValues(w.ValueBytes)
	if end > 0 {
		if err := checkFirst(ctx, target, values); err != nil {
			return 0, err
		}
	}
	progress.Add(min(end, w.Records))
	if end >= w.Records {
		return 0, nil
	}
	sender, err := target.Sender(ctx, Sending{})
	if err != nil {
		return 0, err
	}
	patient, done := Patient(ctx)
	defer done()
	var failed firstError
	for i := end; i < w.Records; i++ {
		err := failed.get()
		if err == nil {
			err = sender.Send(ctx, 0, values.fresh(i), failed.set)
		}
		if err != nil {
			return i - end, errors.Join(err, shut(patient, sender))
		}
		progress.Add(1)
	}
	err = shut(patient, sender)
	return w.Records - end, errors.Join(failed.get(), err)
}

func checkFirst(ctx context.Context, target Target, values *values) error {
	reader, err := target.Reader(ctx, Range{Until: 1})
	if err != nil {
		return err
	}
	defer shutReader(ctx, reader)
	if _, blind := reader.(BlockReader); blind {
		return nil
	}
	run, err := reader.Next(ctx)
	if err != nil {
		return fmt.Errorf("read the first record: %w", err)
	}
	if err := values.check(0, run[0]); err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return nil
}

// Run reads the records once with so many readers; progress gets the
// records. It ends at the first record that is not what was written. A context
// that ends, ends the run early; the result then holds what was read until
// then, beside the error.
func (w Reads) Run(ctx context.Context, target Target, readers int, progress Progress) (ReadResult, error) {
	if readers < 1 || int64(readers) > w.Records {
		return ReadResult{}, fmt.Errorf("%d readers need as many records, not %d", readers, w.Records)
	}
	values := newValues(w.ValueBytes)
	var (
		records atomic.Int64
		errs    = make([]error, readers)
		reading sync.WaitGroup
	)
	taken := limit.Span{Processor: w.Processor}.Taken()
	start := time.Now()
	for i := range readers {
		from, until := w.Records*int64(i)/int64(readers), w.Records*int64(i+1)/int64(readers)
		reading.Go(func() {
			errs[i] = readRange(ctx, target, values, from, until, func(n int64) {
				records.Add(n)
				progress.Add(n)
			})
		})
	}
	reading.Wait()
	result := ReadResult{Readers: readers, Records: records.Load()}
	result.Bytes = result.Records * int64(w.ValueBytes)
	result.Elapsed = time.Since(start)
	result.ClientTime, result.ServerTime = taken()
	return result, errors.Join(errs...)
}

// readRange reads and checks the records of [from, until).
func readRange(ctx context.Context, target Target, values *values, from, until int64, done func(int64)) error {
	reader, err := target.Reader(ctx, Range{From: from, Until: until})
	if err != nil {
		return err
	}
	defer shutReader(ctx, reader)
	if blocks, ok := reader.(BlockReader); ok {
		return readBlocks(ctx, blocks, from, until, done)
	}
	for next := from; next < until; {
		run, err := reader.Next(ctx)
		if err == io.EOF {
			return fmt.Errorf("the log ended at offset %d, before %d", next, until)
		}
		if err != nil {
			return fmt.Errorf("read at offset %d: %w", next, err)
		}
		if int64(len(run)) > until-next {
			return fmt.Errorf("the log returned %d records from offset %d on, beyond %d", len(run), next, until)
		}
		for _, value := range run {
			if err := values.check(next, value); err != nil {
				return err
			}
			next++
		}
		done(int64(len(run)))
	}
	return nil
}

// readBlocks reads the records of [from, until) without looking into them.
func readBlocks(ctx context.Context, reader BlockReader, from, until int64, done func(int64)) error {
	for next := from; next < until; {
		n, _, err := reader.NextBlock(ctx)
		if err == io.EOF {
			return fmt.Errorf("the log ended at offset %d, before %d", next, until)
		}
		if err != nil {
			return fmt.Errorf("read at offset %d: %w", next, err)
		}
		next += n
		done(n)
	}
	return nil
}
