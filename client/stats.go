package client

import (
	"context"
	"iter"
	"math/bits"
	"slices"
	"time"
)

// Stats describes the work of a Producer.
type Stats struct {
	// Without an answer: in flight, and all that WithBufferBytes bounds.
	InFlightRequests, InFlightRecords, InFlightBytes int
	BufferedBytes                                    int

	// Appended since the producer was opened.
	Requests, Records, Bytes uint64
	Failed                   uint64 // records that failed
	Resent                   uint64 // requests that were sent again
	Streams                  uint64 // streams opened

	RequestRecords Histogram // records per request
	RequestBytes   Histogram // bytes per request, before compression
	Latency        Histogram // nanoseconds from the first send of a request to its answer

	// Stages break down the time of requests, from when their first records were accepted to their
	// answers, in the order of Stages.All; empty without WithStages.
	Stages []StageHistogram
}

// StageHistogram is the time that requests spent in a stage, in nanoseconds.
type StageHistogram struct {
	Stage string
	Histogram
}

// Stats returns a snapshot of the producer's statistics.
func (p *Producer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.backlog
	return Stats{
		InFlightRequests: len(b.window.flight),
		InFlightRecords:  b.window.records(),
		InFlightBytes:    b.window.bytes,
		BufferedBytes:    b.buffered,
		Requests:         b.counts.requestRecords.Count,
		Records:          b.counts.requestRecords.Sum,
		Bytes:            b.counts.requestBytes.Sum,
		Failed:           b.counts.failed,
		Resent:           b.counts.resent,
		Streams:          b.counts.streams,
		RequestRecords:   b.counts.requestRecords,
		RequestBytes:     b.counts.requestBytes,
		Latency:          b.counts.latency,
		Stages:           slices.Clone(b.counts.stages),
	}
}

// counts are the parts of Stats that only increase.
type counts struct {
	failed, resent, streams               uint64
	requestRecords, requestBytes, latency Histogram
	stages                                []StageHistogram
}

// appended counts an answered request.
func (c *counts) appended(r *request, now time.Time) {
	c.requestRecords.record(uint64(r.count))
	c.requestBytes.record(uint64(r.size))
	c.latency.record(uint64(max(0, now.Sub(r.sent))))
	if r.stages == nil {
		return
	}
	i := 0
	for name, took := range r.stagesOf(r.accepted, now).All() {
		if i == len(c.stages) {
			c.stages = append(c.stages, StageHistogram{Stage: name})
		}
		c.stages[i].record(uint64(max(took, 0)))
		i++
	}
}

// Histogram counts values in buckets with a width of an eighth of a power of two: a quantile is
// at most an eighth too high.
type Histogram struct {
	Count, Sum uint64
	buckets    [8 * 64]uint64
}

func (h *Histogram) record(v uint64) {
	h.Count++
	h.Sum += v
	h.buckets[bucketOf(v)]++
}

// Mean returns the mean of the values, or 0 if there are none.
func (h Histogram) Mean() float64 {
	if h.Count == 0 {
		return 0
	}
	return float64(h.Sum) / float64(h.Count)
}

// Quantile returns a value that the fraction q (0 to 1) of the values do not exceed, or 0 if
// there are none.
func (h Histogram) Quantile(q float64) uint64 {
	rank := uint64(q * float64(h.Count))
	for i, n := range h.buckets {
		if n > rank {
			return topOf(i)
		}
		rank -= min(n, rank)
	}
	for i := len(h.buckets) - 1; i >= 0; i-- {
		if h.buckets[i] > 0 {
			return topOf(i)
		}
	}
	return 0
}

// bucketOf puts 0 to 15 into buckets of their own, and then eight values of the
// highest four bits into each power of two.
func bucketOf(v uint64) int {
	if v < 16 {
		return int(v)
	}
	shift := bits.Len64(v) - 4
	return 8*shift + int(v>>shift)
}

// topOf returns the highest value of a bucket.
func topOf(bucket int) uint64 {
	if bucket < 16 {
		return uint64(bucket)
	}
	shift := bucket/8 - 1
	return uint64(bucket-8*shift+1)<<shift - 1
}

// Result is the result of a durable record.
type Result struct {
	Offset int64
	// Stages breaks down the time; nil without WithStages, or if the server does not support it.
	Stages *Stages
}

// Stages break down the time of an append. They follow each other and add up to Total; only
// Network covers both directions. docs/tracing.md describes them.
type Stages struct {
	Gather   time.Duration // in this process, until its request was sent
	Network  time.Duration // outside of both processes, and in their transport layers
	Receive  time.Duration // on the node, until the log's replica had the request
	Queue    time.Duration // until the replica took it out of its queue
	Batch    time.Duration // until the group write that contains it began
	Write    time.Duration // until the write was in the file on the leader's node
	Sync     time.Duration // until the write was synced there
	Replicas time.Duration // until a majority of the replicas had the record
	Answer   time.Duration // until earlier answers on its stream were sent
	Wake     time.Duration // in this process, from the answer until the caller continued

	// Proposed is how long after Receive the records were sent to the other replicas, and Acks how
	// long these took from then on, concurrently with the stages above.
	Proposed time.Duration
	Acks     []ReplicaAck
}

// ReplicaAck is the acknowledgement of another replica.
type ReplicaAck struct {
	Node    string // name
	Missing bool   // it had not arrived when a majority had the records
	After   time.Duration
}

// Server returns the part of Total that the node measures.
func (s *Stages) Server() time.Duration {
	return s.Receive + s.Queue + s.Batch + s.Write + s.Sync + s.Replicas + s.Answer
}

// Total returns the sum of all stages.
func (s *Stages) Total() time.Duration { return s.Gather + s.Network + s.Server() + s.Wake }

// All returns the consecutive stages in order, by name.
func (s *Stages) All() iter.Seq2[string, time.Duration] {
	return func(yield func(string, time.Duration) bool) {
		for _, stage := range [...]struct {
			name string
			took time.Duration
		}{
			{"gather", s.Gather}, {"network", s.Network}, {"receive", s.Receive}, {"queue", s.Queue}, {"batch", s.Batch},
			{"write", s.Write}, {"sync", s.Sync}, {"replicas", s.Replicas}, {"answer", s.Answer}, {"wake", s.Wake},
		} {
			if !yield(stage.name, stage.took) {
				return
			}
		}
	}
}

// stagesOf returns the stages of a record that was given to the producer and whose result was
// fetched at these times, once done is closed.
func (r *request) stagesOf(began, fetched time.Time) *Stages {
	m := r.stages
	if m == nil {
		return nil
	}
	s := &Stages{
		Gather:  max(r.sent.Sub(began), 0),
		Receive: m.Receive.AsDuration(), Queue: m.Queue.AsDuration(), Batch: m.Batch.AsDuration(), Write: m.Write.AsDuration(),
		Sync: m.Sync.AsDuration(), Replicas: m.Replicas.AsDuration(), Answer: m.Answer.AsDuration(),
		Wake: fetched.Sub(r.answered), Proposed: m.Proposed.AsDuration(),
	}
	s.Network = max(r.answered.Sub(r.sent)-s.Server(), 0)
	for _, a := range m.Acknowledgements {
		s.Acks = append(s.Acks, ReplicaAck{Node: a.Node, Missing: a.After == nil, After: a.After.AsDuration()})
	}
	return s
}

// AppendResult is like AppendRecord but also returns how the time was spent, with WithStages.
func (p *Producer) AppendResult(ctx context.Context, r Record) (Result, error) {
	began := time.Now()
	q, index, err := p.accept(ctx, &r, true, nil)
	if err != nil {
		return Result{}, err
	}
	offset, err := q.wait(ctx, index)
	if err != nil {
		return Result{}, err
	}
	return Result{offset, q.stagesOf(began, time.Now())}, nil
}

// Result is like Offset but also returns how the time was spent, with WithStages: from when the
// first record of the request was accepted until the answer arrived.
func (f *Future) Result(ctx context.Context) (Result, error) {
	offset, err := f.Offset(ctx)
	if err != nil {
		return Result{}, err
	}
	return Result{offset, f.request.stagesOf(f.request.accepted, f.request.answered)}, nil
}
