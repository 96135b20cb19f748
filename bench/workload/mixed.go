package workload

import (
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
	"github.com/cespare/xxhash/v2"

	"strandline.dev/bench/limit"
)

// Mixed does everything at once, for a set time: workers append, tails follow
// the end, readers that boot read everything there is, and the log is trimmed
// behind them. Each value says whose it is, which one, and when it was sent,
// so every tail proves by a running hash for each writer that it saw all of
// what was acknowledged, once and in order.
type Mixed struct {
	Writers    int // each with a connection of its own
	Workers    int // appends outstanding, over all writers
	ValueBytes int // 32 at least
	Tails      int
	Boots      int           // readers that read from the start, again and again
	BootEvery  time.Duration // a pause before each such read
	TrimEvery  time.Duration // 0: never
	Keep       int64         // how many records a trim leaves
	Warmup     time.Duration // how long before counting begins
	Duration   time.Duration // how long is counted
	Step       time.Duration // the grain of the series; 0: 250 ms
}

// MixedResult is what a mixed run gave in the measured time.
type MixedResult struct {
	limit.Rate                         // appends
	Append     *hdrhistogram.Histogram // latency of appends
	Deliver    *hdrhistogram.Histogram // from the call of an append to a tail's hands
	BootReads  limit.Throughput        // of the booting readers together
	Boots      int64                   // how often one reached the end
	Trims      int64
	Tails      int // whose running hashes are those of the writers
	Series     []Moment
	Events     []Event
	ValueBytes int
}

// Moment is one step of a series over time, from the beginning of the run.
type Moment struct {
	At       time.Duration // its end
	Appends  int64
	P50, P99 time.Duration
	Max      time.Duration
}

// Event is something that happened, for the chart.
type Event struct {
	At   time.Duration
	What string
}

// mixedMin has room for writer, number, time, and the filling's beginning.
const mixedMin = 32

type mixedRun struct {
	Mixed
	target  Target
	patient context.Context // of what is finished once it is begun
	begin   time.Time
	stage   atomic.Int32

	writers []mixedWriter
	boots   atomic.Int64
	booted  atomic.Int64 // bytes in the measured time

	mu     sync.Mutex
	result MixedResult
	step   *hdrhistogram.Histogram // of the current step
	failed error
	stop   context.CancelFunc
}

// mixedWriter numbers its values in the order in which they enter the client
// library, which is the order that they have in the log.
type mixedWriter struct {
	mu     sync.Mutex
	next   uint64
	hash   *RunningHash
	random *rand.ChaCha8
}

// Validate returns an error that names what makes no sense with any target.
func (w Mixed) Validate() error {
	if w.Writers < 1 || w.Workers < w.Writers {
		return fmt.Errorf("%d writers and %d workers: at least one writer, and a worker for each writer, are needed", w.Writers, w.Workers)
	}
	return checkable(w.ValueBytes, mixedMin)
}

// Run runs; progress gets the milliseconds that have passed.
func (w Mixed) Run(ctx context.Context, target Target, progress Progress) (MixedResult, error) {
	if err := w.Validate(); err != nil {
		return MixedResult{}, err
	}
	if w.Step <= 0 {
		w.Step = 250 * time.Millisecond
	}
	patient, end := Patient(ctx)
	defer end()
	working, stop := context.WithCancel(ctx)
	defer stop()
	run := &mixedRun{Mixed: w, target: target, patient: patient, begin: time.Now(), writers: make([]mixedWriter, w.Writers), stop: stop, step: limit.NewHistogram()}
	run.result = MixedResult{Append: limit.NewHistogram(), Deliver: limit.NewHistogram(), ValueBytes: w.ValueBytes}
	err := run.all(working, progress)
	run.mu.Lock()
	defer run.mu.Unlock()
	run.result.Count = run.result.Append.TotalCount()
	run.result.Boots = run.boots.Load()
	run.result.BootReads.Bytes = run.booted.Load()
	run.result.BootReads.Elapsed = run.result.Elapsed
	return run.result, errors.Join(run.failed, err, ctx.Err())
}

// all starts everybody, waits for the time to pass, and ends them in order:
// first the writers, then, when they have seen everything, the tails.
func (r *mixedRun) all(ctx context.Context, progress Progress) error {
	_, from, err := r.target.Bounds(ctx, 0)
	if err != nil {
		return err
	}
	var writing, others, tailing sync.WaitGroup
	tails := make([]*mixedTail, r.Tails)
	tailContext, endTails := context.WithCancel(context.WithoutCancel(ctx))
	defer tailing.Wait()
	defer endTails()
	for i := range tails {
		if tails[i], err = r.openTail(ctx, from); err != nil {
			return err
		}
		tailing.Go(func() { r.fail(tails[i].follow(tailContext)) })
	}
	senders, err := r.openSenders(ctx)
	if err != nil {
		return err
	}
	var measured time.Time
	measure := func() {
		measured = time.Now()
		r.stage.Store(stageMeasured)
	}
	if r.Warmup <= 0 {
		measure() // the first append, too
	}
	for i := range r.Workers {
		writing.Go(func() { r.fail(r.write(ctx, i%r.Writers, senders[i%r.Writers])) })
	}
	for range r.Boots {
		others.Go(func() { r.fail(r.boot(ctx)) })
	}
	if r.TrimEvery > 0 {
		others.Go(func() { r.fail(r.trim(ctx)) })
	}

	if r.Warmup > 0 {
		r.pass(ctx, r.Warmup, progress)
		measure()
	}
	r.pass(ctx, r.Duration, progress)
	r.stage.Store(stageOver)
	r.mu.Lock()
	r.result.Elapsed = time.Since(measured)
	r.mu.Unlock()
	writing.Wait()
	r.stop()
	others.Wait()
	var errs []error
	for _, s := range senders {
		errs = append(errs, shut(r.patient, s))
	}
	if r.hasFailed() {
		return errors.Join(errs...) // tails may wait in vain for what failed
	}
	for _, tail := range tails {
		errs = append(errs, tail.check(r))
	}
	return errors.Join(errs...)
}

func (r *mixedRun) openSenders(ctx context.Context) ([]Sender, error) {
	var all []Sender
	for i := range r.writers {
		r.writers[i].hash = NewRunningHash()
		r.writers[i].random = rand.NewChaCha8([32]byte{byte(i)})
		s, err := r.target.Sender(ctx, Sending{Once: OnceDefault, InFlight: 1})
		if err != nil {
			for _, open := range all {
				err = errors.Join(err, shut(r.patient, open))
			}
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// pass lets time pass, step by step.
func (r *mixedRun) pass(ctx context.Context, d time.Duration, progress Progress) {
	ticks := time.NewTicker(r.Step)
	defer ticks.Stop()
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		select {
		case <-ticks.C:
			progress.Add(r.Step.Milliseconds())
			r.endStep()
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (r *mixedRun) endStep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	quantile := func(q float64) time.Duration { return time.Duration(r.step.ValueAtQuantile(q)) }
	r.result.Series = append(r.result.Series, Moment{
		At: time.Since(r.begin), Appends: r.step.TotalCount(),
		P50: quantile(50), P99: quantile(99), Max: time.Duration(r.step.Max()),
	})
	r.step.Reset()
}

func (r *mixedRun) fail(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
		r.stop()
	}
}

func (r *mixedRun) hasFailed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed != nil
}

func (r *mixedRun) event(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Events = append(r.result.Events, Event{time.Since(r.begin), what})
}

// write is one worker. Send is called under the writer's mutex, so that the
// numbers enter the library in order; waiting for the answer is not.
func (r *mixedRun) write(ctx context.Context, writer int, sender Sender) error {
	w := &r.writers[writer]
	answered := make(chan error, 1)
	for r.stage.Load() != stageOver && ctx.Err() == nil {
		start := time.Now()
		w.mu.Lock()
		value := make([]byte, r.ValueBytes)
		_, _ = w.random.Read(value) // never fails
		binary.LittleEndian.PutUint64(value, uint64(writer))
		binary.LittleEndian.PutUint64(value[8:], w.next)
		binary.LittleEndian.PutUint64(value[16:], uint64(start.Sub(r.begin)))
		binary.LittleEndian.PutUint64(value[24:], xxhash.Sum64(value[:24]))
		w.next++
		w.hash.Add(value)
		err := sender.Send(r.patient, 0, value, func(err error) { answered <- err })
		w.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case err = <-answered:
		case <-r.patient.Done():
			err = r.patient.Err()
		}
		if err != nil {
			return fmt.Errorf("append: %w", err)
		}
		r.observe(time.Since(start))
	}
	return nil
}

func (r *mixedRun) observe(latency time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit.Observe(r.step, latency)
	if r.stage.Load() == stageMeasured {
		limit.Observe(r.result.Append, latency)
	}
}

// boot reads from the start to where the end was, again and again. A trim that
// overtakes it makes it begin anew.
func (r *mixedRun) boot(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(r.BootEvery, time.Millisecond)):
		}
		start, end, err := r.target.Bounds(ctx, 0)
		if err != nil {
			return err
		}
		if start == end {
			continue
		}
		r.event("boot read begins")
		whole, err := r.bootOnce(ctx, start, end)
		if err != nil {
			return err
		}
		if whole {
			r.boots.Add(1)
			r.event("boot read ends")
		}
	}
}

func (r *mixedRun) bootOnce(ctx context.Context, start, end int64) (whole bool, err error) {
	reader, err := r.target.Reader(ctx, Range{From: start, Until: end})
	if err != nil {
		return false, err
	}
	defer shutReader(ctx, reader)
	for {
		values, err := reader.Next(ctx)
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			// Was it trimmed away under the reader?
			if now, _, e := r.target.Bounds(ctx, 0); e == nil && now > start {
				return false, nil
			}
			return false, fmt.Errorf("boot read: %w", err)
		}
		for _, value := range values {
			if _, _, _, err := r.parse(value); err != nil {
				return false, fmt.Errorf("boot read: %w", err)
			}
			if r.stage.Load() == stageMeasured {
				r.booted.Add(int64(len(value)))
			}
		}
	}
}

// trim drops all but the newest records, in regular intervals.
func (r *mixedRun) trim(ctx context.Context) error {
	ticks := time.NewTicker(r.TrimEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		start, end, err := r.target.Bounds(ctx, 0)
		if err == nil && end-r.Keep > start {
			err = r.target.Trim(ctx, end-r.Keep)
			if err == nil {
				r.event("trim")
				r.mu.Lock()
				r.result.Trims++
				r.mu.Unlock()
			}
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("trim: %w", err)
		}
	}
}

// parse takes a value apart and proves that its head is whole.
func (r *mixedRun) parse(value []byte) (writer int, number uint64, at time.Duration, err error) {
	if len(value) != r.ValueBytes {
		return 0, 0, 0, fmt.Errorf("a record of %d bytes instead of %d", len(value), r.ValueBytes)
	}
	if binary.LittleEndian.Uint64(value[24:]) != xxhash.Sum64(value[:24]) {
		return 0, 0, 0, errors.New("a record that no writer has written")
	}
	writer = int(binary.LittleEndian.Uint64(value))
	return writer, binary.LittleEndian.Uint64(value[8:]), time.Duration(binary.LittleEndian.Uint64(value[16:])), nil
}

// mixedTail follows the end of the log.
type mixedTail struct {
	run    *mixedRun
	reader Reader
	hashes []*RunningHash // by writer

	mu   sync.Mutex
	seen int64
	came chan struct{} // of capacity 1: more has been seen
	over chan struct{} // closed at the end
}

func (r *mixedRun) openTail(ctx context.Context, from int64) (*mixedTail, error) {
	reader, err := r.target.Reader(ctx, Range{From: from, Until: math.MaxInt64, Follow: true})
	if err != nil {
		return nil, err
	}
	t := &mixedTail{run: r, reader: reader, came: make(chan struct{}, 1), over: make(chan struct{})}
	for range r.Writers {
		t.hashes = append(t.hashes, NewRunningHash())
	}
	return t, nil
}

func (t *mixedTail) follow(ctx context.Context) error {
	defer close(t.over)
	defer shutReader(ctx, t.reader)
	for {
		values, err := t.reader.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("tail: %w", err)
		}
		now := time.Since(t.run.begin)
		measured := t.run.stage.Load() == stageMeasured
		for _, value := range values {
			writer, number, at, err := t.run.parse(value)
			if err != nil {
				return fmt.Errorf("tail: %w", err)
			}
			if writer < 0 || writer >= len(t.hashes) {
				return fmt.Errorf("tail: a record of writer %d, but there are only %d writers", writer, len(t.hashes))
			}
			if expected := uint64(t.hashes[writer].Count); number != expected {
				return fmt.Errorf("tail: got record %d of writer %d, expected %d", number, writer, expected)
			}
			t.hashes[writer].Add(value)
			if measured {
				t.run.delivered(now - at)
			}
		}
		t.mu.Lock()
		t.seen += int64(len(values))
		t.mu.Unlock()
		select {
		case t.came <- struct{}{}:
		default:
		}
	}
}

func (r *mixedRun) delivered(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit.Observe(r.result.Deliver, after)
}

// tailPatience is how long a tail may need for what has been acknowledged.
const tailPatience = 30 * time.Second

// check waits until the tail has seen as much as was written, and compares.
func (t *mixedTail) check(r *mixedRun) error {
	var written int64
	for i := range r.writers {
		written += r.writers[i].hash.Count
	}
	late := time.NewTimer(tailPatience)
	defer late.Stop()
	for {
		t.mu.Lock()
		seen := t.seen
		t.mu.Unlock()
		if seen >= written {
			break
		}
		select {
		case <-t.came:
		case <-t.over:
			return fmt.Errorf("a tail ended after %d of %d records", seen, written)
		case <-late.C:
			return fmt.Errorf("a tail received %d of %d records within %v", seen, written, tailPatience)
		case <-r.patient.Done():
			return r.patient.Err()
		}
	}
	for i := range r.writers {
		if err := r.writers[i].hash.Check(t.hashes[i]); err != nil {
			return fmt.Errorf("writer %d: %w", i, err)
		}
	}
	r.mu.Lock()
	r.result.Tails++
	r.mu.Unlock()
	return nil
}
