package workload

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"strandline.dev/bench/limit"
)

// FanOut measures what readers that follow the end of a log cost its appends, and how soon they have
// them: workers append on a schedule, as in Appends, while tails read. All latencies are
// counted from the time an append was meant to go.
type FanOut struct {
	Workers    int
	Writers    int // connections of the workers
	ValueBytes int // fanOutBytes at least
	PerSecond  float64
	Patience   time.Duration // how long records may be on their way to tails at the end; 0: answerTime
	limit.Span
}

// fanOutBytes is the least that a value holds: its number, with a bit that says whether it counts, and
// when it was meant to go.
const fanOutBytes = 16

// FanOutResult is what a number of tails gave in the measured time.
type FanOutResult struct {
	Tails int
	Asked float64
	limit.Rate
	Append  *hdrhistogram.Histogram
	Deliver *hdrhistogram.Histogram // until a tail has a record: one observation for each tail and record
	All     *hdrhistogram.Histogram // until the last of the tails has a record
}

// Validate says what is wrong with the numbers.
func (f FanOut) Validate() error {
	switch {
	case f.PerSecond <= 0:
		return errors.New("the appends need a rate")
	case f.Writers < 1 || f.Workers < f.Writers:
		return fmt.Errorf("%d writers need as many workers, not %d", f.Writers, f.Workers)
	case f.ValueBytes < fanOutBytes:
		return fmt.Errorf("a value must have at least %d bytes, not %d", fanOutBytes, f.ValueBytes)
	}
	return nil
}

// openAtOnce is how many tails are opened at the same time.
const openAtOnce = 16

// Run measures one number of tails; progress is that of Appends.Run. It returns once every tail has
// all records. A tail that ends, or misses a record, fails the run.
func (f FanOut) Run(ctx context.Context, target Target, tails int, progress Progress) (result FanOutResult, err error) {
	result = FanOutResult{Tails: tails, Asked: f.PerSecond, Append: limit.NewHistogram(), Deliver: limit.NewHistogram(), All: limit.NewHistogram()}
	if err := f.Validate(); err != nil {
		return result, err
	}
	patient, end := Patient(ctx)
	defer end()
	run := newFanOutRun(f, tails)
	var senders []Sender
	defer func() {
		for _, sender := range senders {
			_ = shut(patient, sender)
		}
	}()
	for range f.Writers {
		sender, err := target.Sender(ctx, Sending{InFlight: 1})
		if err != nil {
			return result, err
		}
		senders = append(senders, sender)
	}
	reading, endReading := context.WithCancel(ctx)
	defer run.reading.Wait()
	defer endReading()
	if err := run.open(reading, target); err != nil {
		return result, err
	}

	run.begin = time.Now()
	var appending sync.WaitGroup
	for i := range f.Workers {
		appending.Go(func() { run.work(patient, senders[i%f.Writers], i) })
	}
	err = run.wait(ctx, f.Warmup, progress)
	taken := f.Taken()
	start := time.Now()
	if err == nil {
		run.measuring.Store(true)
		err = run.wait(ctx, f.Duration, progress)
	}
	run.measuring.Store(false)
	close(run.over)
	result.Elapsed = time.Since(start)
	result.ClientTime, result.ServerTime = taken()
	late := time.AfterFunc(answerTime, end)
	appending.Wait()
	if !late.Stop() {
		err = errors.Join(err, fmt.Errorf("an append in progress at the end was not answered within %v", answerTime))
	}
	if err == nil {
		err = run.awaitTails(ctx)
	}
	endReading()
	run.reading.Wait()
	if err == nil && len(run.failed) > 0 {
		err = <-run.failed
	}
	for i := range run.counted {
		c := &run.counted[i]
		result.Append.Merge(c.appended)
		result.Deliver.Merge(c.delivered)
		result.All.Merge(c.all)
	}
	result.Count = result.Append.TotalCount()
	return result, err
}

// fanOutRun is a run in progress.
type fanOutRun struct {
	FanOut
	tails     int
	begin     time.Time
	measuring atomic.Bool // what is sent now counts
	over      chan struct{}
	failed    chan error // room for one error of each worker and tail
	reading   sync.WaitGroup

	next     atomic.Int64   // number of the next append
	has      []atomic.Int32 // tails that have each append
	complete atomic.Int64   // appends that all tails have
	arrived  chan struct{}  // of capacity 1: complete has risen
	counted  [fanOutParts]fanOutCounts
}

// fanOutParts divides the histograms, so that those who observe rarely wait for each other.
const fanOutParts = 8

type fanOutCounts struct {
	mu                       sync.Mutex
	appended, delivered, all *hdrhistogram.Histogram
}

func newFanOutRun(f FanOut, tails int) *fanOutRun {
	const slack = time.Second // the schedule ends a little late
	most := int(f.PerSecond*(f.Warmup+f.Duration+slack).Seconds()) + f.Workers
	r := &fanOutRun{
		FanOut: f, tails: tails, over: make(chan struct{}), failed: make(chan error, f.Workers+tails),
		has: make([]atomic.Int32, most), arrived: make(chan struct{}, 1),
	}
	for i := range r.counted {
		r.counted[i].appended, r.counted[i].delivered, r.counted[i].all = limit.NewHistogram(), limit.NewHistogram(), limit.NewHistogram()
	}
	return r
}

func (r *fanOutRun) wait(ctx context.Context, d time.Duration, progress Progress) error {
	return (&appendsRun{failed: r.failed}).wait(ctx, d, progress)
}

// open opens the tails at the end of the log. They read until ctx ends.
func (r *fanOutRun) open(ctx context.Context, target Target) error {
	_, end, err := target.Bounds(ctx, 0)
	if err != nil {
		return err
	}
	var (
		opening sync.WaitGroup
		places  = make(chan struct{}, openAtOnce)
		errs    = make([]error, r.tails)
	)
	for i := range r.tails {
		places <- struct{}{}
		opening.Go(func() {
			defer func() { <-places }()
			tail, err := target.Reader(ctx, Range{From: end, Until: math.MaxInt64, Follow: true})
			if err != nil {
				errs[i] = fmt.Errorf("open tail %d of %d: %w", i+1, r.tails, err)
				return
			}
			r.reading.Go(func() { r.tail(ctx, tail, &r.counted[i%fanOutParts]) })
		})
	}
	opening.Wait()
	return errors.Join(errs...)
}

func (r *fanOutRun) work(ctx context.Context, sender Sender, i int) {
	counted := &r.counted[i%fanOutParts]
	value := make([]byte, r.ValueBytes)
	_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}).Read(value) // never fails
	next := Appends{Workers: r.Workers, PerSecond: r.PerSecond}.schedule(r.begin, i)
	for {
		at := next()
		if !sleepUntil(at, r.over) {
			return
		}
		n := r.next.Add(1) - 1
		if n >= int64(len(r.has)) {
			r.failed <- fmt.Errorf("more than %d appends in a schedule of %v a second", len(r.has), r.PerSecond)
			return
		}
		measured, first := r.measuring.Load(), uint64(n)<<1
		if measured {
			first |= 1
		}
		binary.LittleEndian.PutUint64(value, first)
		binary.LittleEndian.PutUint64(value[8:], uint64(at.Sub(r.begin)))
		if err := sender.Append(ctx, 0, value); err != nil {
			r.failed <- err
			return
		}
		if measured {
			counted.mu.Lock()
			limit.Observe(counted.appended, time.Since(at))
			counted.mu.Unlock()
		}
	}
}

// tail reads until ctx ends.
func (r *fanOutRun) tail(ctx context.Context, tail Reader, counted *fanOutCounts) {
	defer shutReader(ctx, tail)
	for {
		values, err := tail.Next(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = r.deliver(values, counted)
		}
		if err == io.EOF {
			err = errors.New("a tail has ended")
		}
		if err != nil {
			r.failed <- err
			return
		}
	}
}

func (r *fanOutRun) deliver(values [][]byte, counted *fanOutCounts) error {
	now := time.Since(r.begin)
	counted.mu.Lock()
	defer counted.mu.Unlock()
	for _, value := range values {
		if len(value) != r.ValueBytes {
			return fmt.Errorf("%w: a value of %d bytes", ErrForeign, len(value))
		}
		first := binary.LittleEndian.Uint64(value)
		n, measured, meant := first>>1, first&1 == 1, time.Duration(binary.LittleEndian.Uint64(value[8:]))
		if n >= uint64(len(r.has)) {
			return ErrForeign
		}
		if measured {
			limit.Observe(counted.delivered, now-meant)
		}
		if r.has[n].Add(1) < int32(r.tails) {
			continue
		}
		if measured {
			limit.Observe(counted.all, now-meant)
		}
		r.complete.Add(1)
		select {
		case r.arrived <- struct{}{}:
		default:
		}
	}
	return nil
}

// awaitTails waits until all tails have all appends.
func (r *fanOutRun) awaitTails(ctx context.Context) error {
	patience := cmp.Or(r.Patience, answerTime)
	late := time.NewTimer(patience)
	defer late.Stop()
	for r.tails > 0 && r.complete.Load() < r.next.Load() {
		select {
		case <-r.arrived:
		case err := <-r.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return fmt.Errorf("%d of %d records have not reached all %d tails %v after the last append",
				r.next.Load()-r.complete.Load(), r.next.Load(), r.tails, patience)
		}
	}
	return nil
}
