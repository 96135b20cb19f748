package client

import (
	"math/bits"
	"time"
)

// Stats is what a Producer has done and is doing.
type Stats struct {
	// Without an answer: on the wire, and all that WithBufferBytes bounds.
	InFlightRequests, InFlightRecords, InFlightBytes int
	BufferedBytes                                    int

	// Appended since the producer began.
	Requests, Records, Bytes uint64
	Failed                   uint64 // records that failed
	Resent                   uint64 // requests that were sent again
	Streams                  uint64 // streams opened

	RequestRecords Histogram // records per request
	RequestBytes   Histogram // bytes per request, before compression
	Latency        Histogram // ns from the first sending of a request to its answer
}

// Stats returns what the producer has done and is doing.
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
	}
}

// counts are the parts of Stats that only grow.
type counts struct {
	failed, resent, streams               uint64
	requestRecords, requestBytes, latency Histogram
}

// appended counts a request that has been answered.
func (c *counts) appended(r *request, now time.Time) {
	c.requestRecords.record(uint64(r.count))
	c.requestBytes.record(uint64(r.size))
	c.latency.record(uint64(max(0, now.Sub(r.sent))))
}

// Histogram counts values in buckets that are an eighth of a power of two wide:
// a quantile is at most an eighth too high.
type Histogram struct {
	Count, Sum uint64
	buckets    [8 * 64]uint64
}

func (h *Histogram) record(v uint64) {
	h.Count++
	h.Sum += v
	h.buckets[bucketOf(v)]++
}

// Mean is 0 if nothing was counted.
func (h Histogram) Mean() float64 {
	if h.Count == 0 {
		return 0
	}
	return float64(h.Sum) / float64(h.Count)
}

// Quantile is a value that the share q (0 to 1) of the counted ones do not
// exceed; 0 if nothing was counted.
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

// topOf is the highest value of a bucket.
func topOf(bucket int) uint64 {
	if bucket < 16 {
		return uint64(bucket)
	}
	shift := bucket/8 - 1
	return uint64(bucket-8*shift+1)<<shift - 1
}
