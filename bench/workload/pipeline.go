package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"strandline.dev/bench/limit"
)

// Pipeline is B3, one producer that sends as fast as it is let, or at a set
// rate: what matters is how much the client library keeps under way when the
// server is far. What the log holds at the end is compared, by a running hash,
// with what was sent.
type Pipeline struct {
	Records     int64 // at most so many
	ValueBytes  int   // 16 at least
	PerSecond   float64
	Sending     Sending
	Partitioner Partitioner
	Partition   int      // for PartitionManual
	limit.Span           // Duration ends the sending also before Records is reached
	Check       bool     // read everything back
	ReadBack    Target   // where it is read; nil: the same target
	Samples     [][]byte // sent at random instead of made values, if there are any
	Seed        uint64   // of the choice among Samples
}

// Partitioner says which partition a record goes to.
type Partitioner string

const (
	PartitionManual     Partitioner = "manual"
	PartitionRoundRobin Partitioner = "roundrobin"
	PartitionRandom     Partitioner = "random"
	PartitionHash       Partitioner = "hash"
)

// Partitioners are all that are known.
var Partitioners = []Partitioner{PartitionManual, PartitionRoundRobin, PartitionRandom, PartitionHash}

// PipelineResult is what one producer gave.
type PipelineResult struct {
	Sent    int64 // accepted by the client library, from the beginning
	Acked   int64 // acknowledged, from the beginning
	Bytes   int64 // of values that were acknowledged in the measured time
	Checked bool  // all of Acked have been read back and are what was sent
	limit.Rate
	// Latency of records, from Send, or from the time in the schedule, to the
	// acknowledgement.
	Latency *hdrhistogram.Histogram
}

// MiBPerSecond counts values only.
func (r PipelineResult) MiBPerSecond() float64 {
	return limit.Throughput{Bytes: r.Bytes, Elapsed: r.Elapsed}.MiBPerSecond()
}

// Sofar is a look at a run from outside.
type Sofar struct {
	Acked, Bytes int64
	Elapsed      time.Duration
}

// pipelineRun is one run of a Pipeline.
type pipelineRun struct {
	Pipeline
	begin    time.Time
	measured time.Time // when counting begins
	end      time.Time // when sending and counting end
	values   *values
	random   *rand.Rand
	hashes   []*RunningHash
	failed   firstError

	acked, bytes             atomic.Int64
	measuredAcked, measuredB atomic.Int64

	mu      sync.Mutex
	latency *hdrhistogram.Histogram
	last    time.Time // of the last acknowledgement that was measured
}

// Validate returns an error that names what makes no sense with any target.
func (w Pipeline) Validate() error {
	if w.Records < 1 {
		return fmt.Errorf("the number of records must be at least 1, not %d", w.Records)
	}
	if len(w.Samples) == 0 {
		if err := checkable(w.ValueBytes, valueMin); err != nil {
			return err
		}
	}
	if partitions := max(w.Sending.Partitions, 1); w.Partition < 0 || w.Partition >= partitions {
		return fmt.Errorf("there is no partition %d of %d: numbers begin at 0", w.Partition, partitions)
	}
	return nil
}

// Run sends. watch, if it is not nil, is called every interval with how far
// things are, and once at the end. A context that ends, ends the sending; the
// result then holds what was measured until then, beside the error.
func (w Pipeline) Run(ctx context.Context, target Target, interval time.Duration, watch func(Sofar)) (PipelineResult, error) {
	if err := w.Validate(); err != nil {
		return PipelineResult{}, err
	}
	if w.Sending.BufferBytes == 0 {
		w.Sending.BufferBytes = w.buffer()
	}
	sender, err := target.Sender(ctx, w.Sending)
	if err != nil {
		return PipelineResult{}, err
	}
	run := newPipelineRun(w)
	stop := run.watch(interval, watch)
	sent, err := run.send(ctx, sender)
	patient, end := Patient(ctx)
	defer end()
	err = errors.Join(err, shut(patient, sender), run.failed.get())
	stop()
	result := run.result(sent)
	// Without acknowledgements it is unknown when the records sent are there, or
	// whether it comes at all.
	if w.Check && w.Sending.Acks != AcksNone && err == nil {
		from := target
		if w.ReadBack != nil {
			from = w.ReadBack
		}
		err = CheckLog(ctx, from, w.Sending.Acks, run.hashes)
		result.Checked = err == nil
	}
	return result, err
}

// buffer is room for what is in flight and for the requests that form behind
// it, and no more: what has been accepted must be sent before a run can end.
func (w Pipeline) buffer() int {
	const automatic, least = 24 << 20, 2 << 20
	if w.Sending.InFlight == 0 || w.Sending.RequestBytes == 0 {
		return automatic
	}
	return max(least, (w.Sending.InFlight+2)*w.Sending.RequestBytes)
}

// newPipelineRun begins now.
func newPipelineRun(w Pipeline) *pipelineRun {
	run := &pipelineRun{
		Pipeline: w, latency: limit.NewHistogram(), random: rand.New(rand.NewPCG(w.Seed, 1)),
		values: newValues(max(w.ValueBytes, valueMin)),
	}
	for range max(w.Sending.Partitions, 1) {
		run.hashes = append(run.hashes, NewRunningHash())
	}
	run.begin = time.Now()
	run.measured = run.begin.Add(w.Warmup)
	run.end = run.measured.Add(w.Duration)
	return run
}

// send sends until there are enough records or the time has passed.
func (r *pipelineRun) send(ctx context.Context, sender Sender) (int64, error) {
	for i := int64(0); i < r.Records; i++ {
		now := time.Now()
		if r.PerSecond > 0 {
			intended := r.begin.Add(time.Duration(float64(i) / r.PerSecond * float64(time.Second)))
			if intended.After(now) && !sleepUntil(earlier(intended, r.end), ctx.Done()) {
				return i, ctx.Err()
			}
			now = intended
		}
		if !now.Before(r.end) {
			return i, nil
		}
		if err := errors.Join(ctx.Err(), r.failed.get()); err != nil {
			return i, err
		}
		value, partition := r.value(i), r.partition(i)
		r.hashes[partition].Add(value)
		err := sender.Send(ctx, partition, value, func(err error) { r.answered(now, len(value), err) })
		if err != nil {
			return i, err
		}
	}
	return r.Records, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (r *pipelineRun) value(i int64) []byte {
	if len(r.Samples) > 0 {
		return r.Samples[r.random.IntN(len(r.Samples))]
	}
	return r.values.fresh(i)
}

func (r *pipelineRun) partition(i int64) int {
	n := int64(len(r.hashes))
	switch r.Partitioner {
	case PartitionRoundRobin:
		return int(i % n)
	case PartitionRandom:
		return r.random.IntN(int(n))
	case PartitionHash:
		return int(uint64(i) * 0x9e3779b97f4a7c15 >> 33 % uint64(n)) // Fibonacci hashing of the record's number
	}
	return r.Partition
}

func (r *pipelineRun) answered(since time.Time, size int, err error) {
	if err != nil {
		r.failed.set(err)
		return
	}
	r.acked.Add(1)
	r.bytes.Add(int64(size))
	now := time.Now()
	if now.Before(r.measured) || now.After(r.end) {
		return
	}
	r.measuredAcked.Add(1)
	r.measuredB.Add(int64(size))
	r.mu.Lock()
	limit.Observe(r.latency, now.Sub(since))
	r.last = now
	r.mu.Unlock()
}

// result is what was measured: to the last acknowledgement before the end. It
// shares nothing with a sender that was left behind.
func (r *pipelineRun) result(sent int64) PipelineResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := PipelineResult{
		Sent: sent, Acked: r.acked.Load(), Bytes: r.measuredB.Load(), Latency: limit.NewHistogram(),
		Rate: limit.Rate{Count: r.measuredAcked.Load()},
	}
	result.Latency.Merge(r.latency)
	if !r.last.IsZero() {
		result.Elapsed = r.last.Sub(r.measured)
	}
	return result
}

// watch calls see every interval until stop, and then once more.
func (r *pipelineRun) watch(interval time.Duration, see func(Sofar)) (stop func()) {
	if see == nil {
		return func() {}
	}
	look := func() {
		see(Sofar{Acked: r.acked.Load(), Bytes: r.bytes.Load(), Elapsed: time.Since(r.begin)})
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(interval)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				look()
			case <-over:
				look()
				return
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}
