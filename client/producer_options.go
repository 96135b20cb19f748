package client

import (
	"context"
	"time"

	"google.golang.org/grpc/metadata"
)

// ProducerOption changes how a Producer sends.
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

// WithMaxInFlightRequests lets at most n requests wait for their answers, counted
// before the bytes reach the socket. Records that come while all n are out gather
// and leave together. Order and at-most-once hold for any n.
//
// Default 0, automatic: up to 4 requests of any size, and up to 64 of at
// least 64 KiB. So callers that wait for each append are gathered into few
// requests, while a steady flow fills a long link.
func WithMaxInFlightRequests(n int) ProducerOption {
	return func(o *producerOptions) { o.requests = n }
}

// WithMaxInFlightBytes bounds the bytes of batches that wait for their answers,
// counted like WithMaxInFlightRequests. A single request larger than that may be
// out alone. Default 0, automatic: 16 MiB; and up to 64 MiB on a link on which no answer
// has come within 20 ms, as long as those are not enough to fill it.
func WithMaxInFlightBytes(n int) ProducerOption {
	return func(o *producerOptions) { o.bytes = n }
}

// WithMaxRequestBytes closes a request when the next record would make it larger,
// before compression. A larger record is a request of its own. Default 1 MiB.
func WithMaxRequestBytes(n int) ProducerOption {
	return func(o *producerOptions) { o.requestBytes = n }
}

// WithBufferBytes bounds the records that have been accepted and have no answer
// yet, sent or not. At the bound Append and Send wait for room. Default 64 MiB.
func WithBufferBytes(n int) ProducerOption {
	return func(o *producerOptions) { o.bufferBytes = n }
}

// WithCompression compresses every request. Default None.
func WithCompression(c Compression) ProducerOption {
	return func(o *producerOptions) { o.compression = c }
}

// WithLinger holds a request that is not full back for up to d, for more records to
// join it. Default 0: a record leaves at once if a place in the in-flight window is
// free.
func WithLinger(d time.Duration) ProducerOption {
	return func(o *producerOptions) { o.linger = d }
}

// WithLease sets how long the session outlives the last request of this producer. An
// idle producer renews it three times in a lease. Default 60 s; 1 s to 24 h, and what is not
// positive is refused with ErrInvalid.
func WithLease(d time.Duration) ProducerOption {
	return func(o *producerOptions) { o.lease = d }
}

// WithWriterTerm sends a term from Admin.AcquireWriter with every append, so that
// they fail with ErrFenced once a newer term has been acquired. Default 0: none.
func WithWriterTerm(term uint64) ProducerOption {
	return func(o *producerOptions) { o.writer = term }
}

// WithoutSession sends every request once and never again: an answer that is lost
// makes an error with outcome MaybeDone. A request that fails does not fail those
// behind it. Default off.
func WithoutSession() ProducerOption {
	return func(o *producerOptions) { o.withoutSession = true }
}

// WithSession continues the session of an earlier Producer at a position that
// Producer.Position returned, instead of opening a new one: the next record
// accepted gets at.Next. See docs/at-most-once.md for how a program that was
// restarted finds out where to continue. Default a session of its own.
func WithSession(at SessionPosition) ProducerOption {
	return func(o *producerOptions) { o.resume = at }
}

// WithEndOnFailure ends the producer with the first record that fails: everything
// that was accepted and has no answer fails too, and nothing more is accepted. So
// the producer never continues in another epoch or session, and each record has
// the sequence that Position gave. Default off.
func WithEndOnFailure() ProducerOption { return func(o *producerOptions) { o.endOnFailure = true } }

// WithRequestTimeout bounds how long a record may be without an answer, re-sends
// included; then it fails, and what was accepted after it, too. Default 30 s;
// 0: no bound.
func WithRequestTimeout(d time.Duration) ProducerOption {
	return func(o *producerOptions) { o.timeout = d }
}

// WithStages asks with each request where its time went, see Result.Stages. The answers
// are some 100 bytes longer for it. Default off.
func WithStages() ProducerOption { return func(o *producerOptions) { o.stages = true } }

// WithTraceparent makes all appends of the producer part of a trace of OpenTelemetry, where
// the nodes trace: traceparent is the span above them, as W3C's trace context writes it.
// Default none.
func WithTraceparent(traceparent string) ProducerOption {
	return func(o *producerOptions) { o.traceparent = traceparent }
}

// traced lets streams name the span above the appends.
func (o *producerOptions) traced(ctx context.Context) context.Context {
	if o.traceparent == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "traceparent", o.traceparent)
}

// AppendOption puts a condition on one AppendBatch.
type AppendOption func(*appendOptions)

type appendOptions struct {
	expectedEnd    int64
	hasExpectedEnd bool
	atomic         bool
}

// WithExpectedEnd appends only if the log ends exactly at offset, with all that was
// accepted before; else the append fails with ErrEndMismatch, and Error.End is the
// end. Default: wherever the log ends.
func WithExpectedEnd(offset int64) AppendOption {
	return func(o *appendOptions) { o.expectedEnd, o.hasExpectedEnd = offset, true }
}

// WithAtomic makes all records durable together or not at all. Default off.
func WithAtomic() AppendOption { return func(o *appendOptions) { o.atomic = true } }
