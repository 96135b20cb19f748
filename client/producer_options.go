package client

import (
	"context"
	"time"

	"google.golang.org/grpc/metadata"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// ProducerOption configures a Producer.
type ProducerOption func(*producerOptions)

type producerOptions struct {
	requests       int // 0: automatic
	bytes          int // 0: automatic
	requestBytes   int
	bufferBytes    int
	compression    Compression
	linger         time.Duration
	lease          time.Duration
	writer         uint64
	withoutSession bool
	timeout        time.Duration
	resume         SessionPosition
	endOnFailure   bool
	stages         bool
	traceparent    string
}

func defaultProducerOptions() producerOptions {
	return producerOptions{
		requestBytes: 1 << 20,
		bufferBytes:  64 << 20,
		lease:        60 * time.Second,
		timeout:      30 * time.Second,
	}
}

// WithMaxInFlightRequests permits at most n requests to wait for their answers, counted before
// the bytes reach the socket. Records that arrive while all n are in flight are sent together.
// Order and at-most-once are guaranteed for any n.
//
// Default 0, automatic: up to 4 requests of any size, and up to 64 of at least 64 KiB. So appends
// of callers that wait for each one are gathered into few requests, while a steady flow fills a
// long link.
func WithMaxInFlightRequests(n int) ProducerOption {
	return func(o *producerOptions) { o.requests = n }
}

// WithMaxInFlightBytes bounds the bytes of batches that wait for their answers, counted as for
// WithMaxInFlightRequests. A single larger request may be in flight alone. Default 0, automatic:
// 16 MiB; up to 64 MiB on a link on which no answer has arrived within 20 ms, as long as that
// does not fill it.
func WithMaxInFlightBytes(n int) ProducerOption {
	return func(o *producerOptions) { o.bytes = n }
}

// WithMaxRequestBytes closes a request when the next record would make it larger than n bytes
// before compression. A larger record gets a request of its own. Default 1 MiB.
func WithMaxRequestBytes(n int) ProducerOption {
	return func(o *producerOptions) { o.requestBytes = n }
}

// WithBufferBytes bounds the records that have been accepted and have no answer yet, sent or not.
// At the limit Append and Send wait. Default 64 MiB.
func WithBufferBytes(n int) ProducerOption {
	return func(o *producerOptions) { o.bufferBytes = n }
}

// WithCompression compresses every request. Default None.
func WithCompression(c Compression) ProducerOption {
	return func(o *producerOptions) { o.compression = c }
}

// WithLinger delays a request that is not full by up to d, for more records to join it. Default
// 0: a record is sent at once if there is room in the in-flight window.
func WithLinger(d time.Duration) ProducerOption {
	return func(o *producerOptions) { o.linger = d }
}

// WithLease sets how long the session outlives the last request of this producer. An idle
// producer renews it three times per lease. Default 60 s; 1 s to 24 h. A value that is not
// positive is refused with ErrInvalid.
func WithLease(d time.Duration) ProducerOption {
	return func(o *producerOptions) { o.lease = d }
}

// WithWriterTerm sends a term from Admin.AcquireWriter with every append, which then fails with
// ErrFenced once a newer term has been acquired. Default 0: none.
func WithWriterTerm(term uint64) ProducerOption {
	return func(o *producerOptions) { o.writer = term }
}

// WithoutSession sends every request only once: if its answer is lost, the error has outcome
// MaybeDone. A request that fails does not fail those behind it. Default off.
func WithoutSession() ProducerOption {
	return func(o *producerOptions) { o.withoutSession = true }
}

// WithSession continues the session of an earlier Producer at a position that Producer.Position
// returned, instead of opening a new one: the next record accepted gets at.Next.
// docs/at-most-once.md describes how a restarted program finds out where to continue. Default a
// session of its own.
func WithSession(at SessionPosition) ProducerOption {
	return func(o *producerOptions) { o.resume = at }
}

// WithEndOnFailure ends the producer with the first record that fails: all accepted records
// without an answer fail, too, and no more are accepted. So the producer never continues in
// another epoch or session, and each record has the sequence that Position returned. Default off.
func WithEndOnFailure() ProducerOption { return func(o *producerOptions) { o.endOnFailure = true } }

// WithRequestTimeout bounds how long a record may be without an answer, including repeated sends.
// After that it fails, and so do the records accepted after it. Default 30 s; 0: no limit.
func WithRequestTimeout(d time.Duration) ProducerOption {
	return func(o *producerOptions) { o.timeout = d }
}

// WithStages requests how the time of each request was spent, see Result.Stages. It makes answers
// about 100 bytes longer. Default off.
func WithStages() ProducerOption { return func(o *producerOptions) { o.stages = true } }

// WithTraceparent makes all appends of the producer part of an OpenTelemetry trace, if the nodes
// trace. traceparent is the parent span in the format of the W3C trace context. Default none.
func WithTraceparent(traceparent string) ProducerOption {
	return func(o *producerOptions) { o.traceparent = traceparent }
}

// traced adds the parent span of the appends to the metadata of streams.
func (o *producerOptions) traced(ctx context.Context) context.Context {
	if o.traceparent == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "traceparent", o.traceparent)
}

// AppendOption is a condition on one AppendBatch.
type AppendOption func(*appendOptions)

type appendOptions struct {
	expectedEnd    int64
	hasExpectedEnd bool
	atomic         bool
	check          *strandlinev1.CheckedAppend // nil: none
}

// WithExpectedEnd appends only if the log, including all records accepted before, ends exactly at
// offset. Otherwise the append fails with ErrEndMismatch, and Error.End is the end. Default:
// wherever the log ends.
func WithExpectedEnd(offset int64) AppendOption {
	return func(o *appendOptions) { o.expectedEnd, o.hasExpectedEnd = offset, true }
}

// WithAtomic makes all records durable together or not at all. Default off.
func WithAtomic() AppendOption { return func(o *appendOptions) { o.atomic = true } }

// Check is a condition on what is in the log: no record at offset Since or above, up to the records
// that are appended, has one of the keys, a key that begins with one of the prefixes, or one of
// the headers. At least one of them must be set, and at most 100 in total, of which 16 prefixes.
type Check struct {
	// Since is the offset up to which the caller has read: that of the last record that it has taken
	// into account, plus one.
	Since       int64
	Keys        [][]byte
	KeyPrefixes [][]byte
	Headers     []Header
}

// WithCheck appends, all records or none, only if the check holds, including all records accepted
// before. Otherwise the append fails with ErrConflict, and Error.Offset and Error.Key name a record
// that matches: read from Since on, decide again, and append with a higher Since. It fails with
// ErrCheckTooOld if the log no longer knows the keys from Since on, and Error.Start is the offset
// from which on it does: read up to there. Both are certain: nothing was appended. An append that
// was accepted and is sent again succeeds. The caller needs the right to read the log. Default
// none.
func WithCheck(c Check) AppendOption {
	check := &strandlinev1.CheckedAppend{Since: c.Since, Keys: c.Keys, KeyPrefixes: c.KeyPrefixes}
	for _, h := range c.Headers {
		check.Headers = append(check.Headers, &strandlinev1.Header{Key: h.Key, Value: h.Value})
	}
	return func(o *appendOptions) { o.check = check }
}
