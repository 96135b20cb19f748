package client

import (
	"context"
	"net"
	"time"
)

// Option changes how a Client connects.
type Option func(*clientOptions)

type clientOptions struct {
	insecure  bool
	retryTime time.Duration
	dial      dialFunc // nil: directly
	onTrouble func(log string, err error)
}

type dialFunc func(ctx context.Context, address string) (net.Conn, error)

func defaultClientOptions() clientOptions {
	return clientOptions{retryTime: 5 * time.Second, onTrouble: func(string, error) {}}
}

// WithInsecure allows connections without TLS to addresses other than
// loopback. Everything on them can be read and changed on the way.
func WithInsecure() Option { return func(o *clientOptions) { o.insecure = true } }

// WithRetryTime sets how long calls of Admin, and the opening of a Producer or
// Reader, go on looking for a node that can answer. Default 5 s; 0 tries every
// address once.
func WithRetryTime(d time.Duration) Option {
	return func(o *clientOptions) { o.retryTime = d }
}

// WithDialer has every connection to a node made by dial: to go through a
// tunnel, or to watch or to slow down what is sent. The address is one of those
// given to Dial, or what a node called itself or another one.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(o *clientOptions) { o.dial = dial }
}

// OnTrouble calls f whenever a Producer or Reader could not be opened or go on,
// and tries again, with the log and the reason; and with nil when it goes on.
// Calls come from any goroutine, and f must return soon.
func OnTrouble(f func(log string, err error)) Option {
	return func(o *clientOptions) { o.onTrouble = f }
}

// ProducerOption changes how a Producer sends.
type ProducerOption func(*producerOptions)

type producerOptions struct {
	requests       int // 0: automatic
	bytes          int
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
}

func defaultProducerOptions() producerOptions {
	return producerOptions{
		bytes:        16 << 20,
		requestBytes: 1 << 20,
		bufferBytes:  64 << 20,
		lease:        60 * time.Second,
		timeout:      30 * time.Second,
	}
}

// MaxInFlightRequests lets at most n requests wait for their answers, counted
// before the bytes reach the socket. Records that come while all n are out
// gather and leave together.
//
// The default is automatic: up to 4 requests of any size, and up to 64 of at
// least 64 KiB. So callers that wait for each append are gathered into few
// requests, while a steady flow fills a long link. Order and at-most-once hold
// at any depth.
func MaxInFlightRequests(n int) ProducerOption {
	return func(o *producerOptions) { o.requests = n }
}

// MaxInFlightBytes bounds the bytes of batches that wait for their answers,
// counted like MaxInFlightRequests. A single request larger than that may be
// out alone. Default 16 MiB: enough for 100 MiB/s over a round trip of 140 ms.
func MaxInFlightBytes(n int) ProducerOption {
	return func(o *producerOptions) { o.bytes = n }
}

// MaxRequestBytes closes a request when the next record would make it larger,
// before compression. A larger record is a request of its own. Default 1 MiB.
func MaxRequestBytes(n int) ProducerOption {
	return func(o *producerOptions) { o.requestBytes = n }
}

// BufferBytes bounds the records that have been accepted and have no answer
// yet, sent or not. At the bound Append and Send wait for room. Default 64 MiB.
func BufferBytes(n int) ProducerOption {
	return func(o *producerOptions) { o.bufferBytes = n }
}

// WithCompression compresses every request. Default None.
func WithCompression(c Compression) ProducerOption {
	return func(o *producerOptions) { o.compression = c }
}

// Linger keeps a request that is not full back for up to d, for more records
// to join it. Default 0: a record leaves at once if a slot of the in-flight
// window is free.
func Linger(d time.Duration) ProducerOption {
	return func(o *producerOptions) { o.linger = d }
}

// Lease is how long the session outlives the last sign of this producer. An
// idle producer renews it three times per lease. Default 60 s, between 1 s and
// 24 h.
func Lease(d time.Duration) ProducerOption {
	return func(o *producerOptions) { o.lease = d }
}

// WithWriterTerm sends a term from Admin.AcquireWriter with every append, so
// that they are refused with FENCED once a newer term has been acquired.
func WithWriterTerm(term uint64) ProducerOption {
	return func(o *producerOptions) { o.writer = term }
}

// WithoutSession sends every request once and never again: an answer that is
// lost makes an error with outcome MaybeDone. Requests in flight together
// stand alone: one that fails does not fail those behind it.
func WithoutSession() ProducerOption {
	return func(o *producerOptions) { o.withoutSession = true }
}

// ResumeSession continues the session of an earlier Producer where
// Producer.Position told that it was, instead of opening a new one: the next
// record accepted gets at.Next. See docs/at-most-once.md for how a program that
// was restarted finds out where to go on.
func ResumeSession(at SessionPosition) ProducerOption {
	return func(o *producerOptions) { o.resume = at }
}

// EndOnFailure ends the producer with the first record that fails: everything
// that was accepted and has no answer fails too, and nothing more is accepted.
// So the producer never goes on in another epoch or session, and each record has
// the number that Position foretold.
func EndOnFailure() ProducerOption { return func(o *producerOptions) { o.endOnFailure = true } }

// RequestTimeout bounds how long a record may be without an answer, re-sends
// included; then it fails, and what was accepted after it, too. Default 30 s;
// 0: for ever.
func RequestTimeout(d time.Duration) ProducerOption {
	return func(o *producerOptions) { o.timeout = d }
}

// AppendOption puts a condition on one AppendBatch.
type AppendOption func(*appendOptions)

type appendOptions struct {
	expectedEnd    int64
	hasExpectedEnd bool
	atomic         bool
}

// ExpectedEnd appends only if the log ends exactly at offset, counting what is
// in flight; else the append is refused with END_MISMATCH, which carries the
// end.
func ExpectedEnd(offset int64) AppendOption {
	return func(o *appendOptions) { o.expectedEnd, o.hasExpectedEnd = offset, true }
}

// Atomic makes all records durable together or not at all.
func Atomic() AppendOption { return func(o *appendOptions) { o.atomic = true } }

// ReaderOption says what a Reader reads.
type ReaderOption func(*readerOptions)

type readerOptions struct {
	from       readFrom
	offset     int64
	time       time.Time
	maxRecords int64
	maxBytes   int64
	until      int64
	hasUntil   bool
	untilTime  time.Time
	follow     bool
	heartbeat  time.Duration
	freshness  freshness
	atLeast    int64
	maxAge     time.Duration
	follower   bool
	log        uint64
}

type readFrom uint8

const (
	fromStart readFrom = iota
	fromOffset
	fromTime
	fromTail
)

func defaultReaderOptions() readerOptions {
	return readerOptions{heartbeat: 5 * time.Second}
}

// FromOffset begins at offset.
func FromOffset(offset int64) ReaderOption {
	return func(o *readerOptions) { o.from, o.offset = fromOffset, offset }
}

// FromStart begins at the oldest record that is still there: the default.
func FromStart() ReaderOption { return func(o *readerOptions) { o.from = fromStart } }

// FromTail begins after the record that is the newest when the Reader is made.
func FromTail() ReaderOption { return func(o *readerOptions) { o.from = fromTail } }

// FromTime begins with the first record appended at or after t, by the
// leader's clock.
func FromTime(t time.Time) ReaderOption {
	return func(o *readerOptions) { o.from, o.time = fromTime, t }
}

// OfLog reads the log with that id, as Reader.LogID or LogInfo told it: an offset
// that was kept is of no use in another log that has got the name since. The
// read then fails with ErrLogReplaced.
func OfLog(id uint64) ReaderOption { return func(o *readerOptions) { o.log = id } }

// Follow waits for more records at the end of the log instead of ending there.
func Follow() ReaderOption { return func(o *readerOptions) { o.follow = true } }

// Count ends the read after n records.
func Count(n int64) ReaderOption { return func(o *readerOptions) { o.maxRecords = n } }

// MaxBytes ends the read after n bytes of batches as they are stored; at least
// one batch is read.
func MaxBytes(n int64) ReaderOption { return func(o *readerOptions) { o.maxBytes = n } }

// Until ends the read before offset.
func Until(offset int64) ReaderOption {
	return func(o *readerOptions) { o.until, o.hasUntil = offset, true }
}

// UntilTime ends the read before the first record appended at or after t, by
// the leader's clock.
func UntilTime(t time.Time) ReaderOption {
	return func(o *readerOptions) { o.untilTime = t }
}

// Heartbeat is how often a server that has nothing to send shows a following
// Reader that it is there. The Reader looks for another connection after three
// times as long without a sign. Default 5 s, at least 100 ms.
func Heartbeat(d time.Duration) ReaderOption {
	return func(o *readerOptions) { o.heartbeat = d }
}
