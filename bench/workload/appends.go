package workload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"strandline.dev/bench/limit"
)

// Appends is B1, appends against connections: a fixed number of workers, each
// waiting for its acknowledgement before its next append, spread over a number
// of connections, one request outstanding on each. It is the question that
// group commit answers: does throughput hold when the same load arrives over
// more connections?
//
// With PerSecond the appends follow a schedule instead, as the users of a
// service do: they come at fixed times whether earlier ones are answered or
// not, and latency is counted from the time an append was meant to go. A worker
// that is late is late for what comes after, too, so nothing that a slow answer
// delayed goes unseen.
//
// With Logs each append goes to one of several logs, chosen at random: what do the
// same appends cost that can share less and less with each other?
type Appends struct {
	Workers    int
	ValueBytes int
	PerSecond  float64 // of all workers together; 0: as fast as answers come
	Logs       int     // partitions of the target that the appends go to; 0: 1
	Sending    Sending // InFlight is 1 unless set. With Explain the result says where the time went
	limit.Span
}

// AppendsResult is what one connection count gave in the measured time.
type AppendsResult struct {
	Connections int
	Logs        int
	ValueBytes  int
	Asked       float64 // appends per second; 0: as fast as answers come
	limit.Rate
	// Latency from the call, or from the time in the schedule, to the
	// acknowledgement, as the worker sees it.
	Latency *hdrhistogram.Histogram
	// Explained is that time by stage; nil: not requested.
	Explained *Explained
}

// MiBPerSecond counts values only, without keys and framing.
func (r AppendsResult) MiBPerSecond() float64 {
	return r.PerSecond() * float64(r.ValueBytes) / (1 << 20)
}

// progressEvery is how often the passing of time is reported.
const progressEvery = 100 * time.Millisecond

// answerTime is how long appends may take that are under way at the end. Some
// libraries would hope for ever.
const answerTime = time.Minute

// Run measures one connection count; progress gets the milliseconds that
// have passed of warm-up and duration. Appends that are under way at the end
// are waited for but not counted; one that fails then, or has no answer within
// answerTime, fails the run. A context that ends, or an append that fails, ends
// the run early; the result then holds what was measured until then, beside the
// error.
func (a Appends) Run(ctx context.Context, target Target, connections int, progress Progress) (AppendsResult, error) {
	result := AppendsResult{Connections: connections, Logs: max(a.Logs, 1), ValueBytes: a.ValueBytes, Asked: a.PerSecond, Latency: limit.NewHistogram()}
	if connections < 1 || connections > a.Workers {
		return result, fmt.Errorf("%d connections need as many workers, not %d", connections, a.Workers)
	}
	patient, end := Patient(ctx)
	defer end()
	var senders []Sender
	defer func() {
		for _, sender := range senders {
			_ = shut(patient, sender) // every append has its outcome
		}
	}()
	sending := a.Sending
	sending.InFlight, sending.Partitions = max(sending.InFlight, 1), result.Logs
	for range connections {
		sender, err := target.Sender(ctx, sending)
		if err != nil {
			return result, fmt.Errorf("open connection %d of %d: %w", len(senders)+1, connections, err)
		}
		senders = append(senders, sender)
		if _, ok := sender.(ExplainingSender); sending.Explain && !ok {
			return result, fmt.Errorf("stages of an append are %w by this client", ErrUnsupported)
		}
	}

	run := appendsRun{over: make(chan struct{}), failed: make(chan error, a.Workers)}
	if sending.Explain {
		run.explained = newExplained()
		result.Explained = run.explained
	}
	begin := time.Now()
	latencies := make([]*hdrhistogram.Histogram, a.Workers)
	var running sync.WaitGroup
	for i := range a.Workers {
		latencies[i] = limit.NewHistogram()
		running.Go(func() {
			run.work(patient, senders[i%connections], a.choice(i), a.value(i), a.schedule(begin, i), latencies[i])
		})
	}
	err := run.wait(ctx, a.Warmup, progress)
	taken := a.Taken()
	start := time.Now()
	if err == nil {
		run.stage.Store(stageMeasured)
		err = run.wait(ctx, a.Duration, progress)
	}
	run.stage.Store(stageOver)
	close(run.over)
	result.Elapsed = time.Since(start)
	result.ClientTime, result.ServerTime = taken()
	late := time.AfterFunc(answerTime, end)
	running.Wait()
	answered := late.Stop()
	switch {
	case err != nil: // the first failure will do
	case !answered:
		err = fmt.Errorf("an append in progress at the end was not answered within %v", answerTime)
	case len(run.failed) > 0:
		err = <-run.failed
	}
	for _, latency := range latencies {
		result.Latency.Merge(latency)
	}
	result.Count = result.Latency.TotalCount()
	return result, err
}

// value is what worker i appends: bytes that no disk or wire can compress, and
// a counter in the first eight that makes each append different.
func (a Appends) value(i int) []byte {
	value := make([]byte, max(a.ValueBytes, 8))
	random := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)})
	_, _ = random.Read(value) // never fails
	return value[:a.ValueBytes]
}

// choice returns a function for the partition of worker i's next append.
func (a Appends) choice(i int) func() int {
	if a.Logs <= 1 {
		return func() int { return 0 }
	}
	random := rand.New(rand.NewPCG(uint64(i), 0))
	return func() int { return random.IntN(a.Logs) }
}

// schedule reports when a worker's next append is meant to go: worker i has every
// so-manieth place of the schedule.
func (a Appends) schedule(begin time.Time, i int) func() time.Time {
	if a.PerSecond <= 0 {
		return time.Now
	}
	place := float64(i)
	return func() time.Time {
		at := begin.Add(time.Duration(place / a.PerSecond * float64(time.Second)))
		place += float64(a.Workers)
		return at
	}
}

// The stages of a run: only what ends while it is measured counts.
const (
	stageWarmup int32 = iota
	stageMeasured
	stageOver
)

type appendsRun struct {
	stage  atomic.Int32
	over   chan struct{} // closed after the stage is stageOver
	failed chan error    // room for one error of each worker

	explained *Explained // nil: not requested
}

func (r *appendsRun) work(ctx context.Context, sender Sender, choose func() int, value []byte, next func() time.Time, latency *hdrhistogram.Histogram) {
	for n := uint64(0); r.stage.Load() != stageOver; n++ {
		if len(value) >= 8 {
			binary.LittleEndian.PutUint64(value, n)
		}
		start := next()
		if time.Until(start) > 0 && !sleepUntil(start, r.over) {
			return
		}
		if err := r.append(ctx, sender, choose(), value); err != nil {
			r.failed <- err
			return
		}
		if r.stage.Load() == stageMeasured {
			limit.Observe(latency, time.Since(start))
		}
	}
}

func (r *appendsRun) append(ctx context.Context, sender Sender, partition int, value []byte) error {
	if r.explained == nil {
		return sender.Append(ctx, partition, value)
	}
	called := time.Now()
	stages, err := sender.(ExplainingSender).AppendExplained(ctx, value)
	if err == nil && r.stage.Load() == stageMeasured {
		r.explained.add(stages, time.Since(called))
	}
	return err
}

func (r *appendsRun) wait(ctx context.Context, d time.Duration, progress Progress) error {
	over := time.NewTimer(d)
	defer over.Stop()
	ticks := time.NewTicker(progressEvery)
	defer ticks.Stop()
	for {
		select {
		case <-over.C:
			return nil
		case <-ticks.C:
			progress.Add(progressEvery.Milliseconds())
		case err := <-r.failed:
			return errors.Join(err, ctx.Err())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
