package limit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Rate is how often something was done in a time.
type Rate struct {
	Count   int64
	Elapsed time.Duration
	// ClientTime and ServerTime are the processor time taken meanwhile; below 0: not
	// known.
	ClientTime, ServerTime time.Duration
}

// PerSecond is the rate per second.
func (r Rate) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Count) / r.Elapsed.Seconds()
}

// Span is how long a measurement runs: Warmup passes before counting begins.
type Span struct {
	Warmup, Duration time.Duration
	// Processor returns the processor time that client and servers have taken so far,
	// below 0 if it is not known; nil: neither is.
	Processor func() (client, servers time.Duration)
}

// Taken begins to measure processor time, and returns what ends it.
func (s Span) Taken() func() (client, servers time.Duration) {
	if s.Processor == nil {
		return func() (client, servers time.Duration) { return -1, -1 }
	}
	client, servers := s.Processor()
	return func() (time.Duration, time.Duration) {
		laterClient, laterServers := s.Processor()
		return since(client, laterClient), since(servers, laterServers)
	}
}

func since(before, after time.Duration) time.Duration {
	if before < 0 || after < 0 {
		return -1
	}
	return after - before
}

// worker does one unit of work and returns how much that was.
type worker func() (int64, error)

// run lets every worker repeat its work, each in a goroutine of its own, and
// counts what is finished in the measured time. stop is called when the time
// has passed, or when a worker fails or the context ends, and must make every
// worker return: closing their connections does. The error is the first of a
// worker before that, or the context's.
func (s Span) run(ctx context.Context, workers []worker, stop func()) (Rate, error) {
	var (
		total   atomic.Int64
		over    atomic.Bool
		failed  = make(chan error, len(workers))
		running sync.WaitGroup
	)
	for _, work := range workers {
		running.Go(func() {
			for !over.Load() {
				n, err := work()
				if err != nil {
					failed <- err
					return
				}
				total.Add(n)
			}
		})
	}
	taken := s.Taken()
	before, start, err := int64(0), time.Now(), wait(ctx, s.Warmup, failed)
	if err == nil {
		taken = s.Taken()
		before, start = total.Load(), time.Now()
		err = wait(ctx, s.Duration, failed)
	}
	rate := Rate{Count: total.Load() - before, Elapsed: time.Since(start)}
	rate.ClientTime, rate.ServerTime = taken()
	over.Store(true)
	stop()
	running.Wait()
	return rate, err
}

func wait(ctx context.Context, d time.Duration, failed <-chan error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case err := <-failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeAll closes in turn and gathers the errors.
func closeAll[C interface{ Close() error }](all []C) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
