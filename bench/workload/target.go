// Package workload holds what is measured: appends spread over connections,
// long reads, pipelining over slow links, and more. A workload knows no system
// under test. It drives a System and its Targets, and bench/driver has one for
// each system.
package workload

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// System is a system under test: it has logs, by name.
type System interface {
	// Create makes a log that is empty.
	Create(ctx context.Context, name string, config LogConfig) error
	Delete(ctx context.Context, name string) error
	// Open prepares for a log that exists.
	Open(ctx context.Context, name string) (Target, error)
	Close() error
}

// ErrNoLog is what Open says of a log that does not exist.
var ErrNoLog = errors.New("no such log")

// ErrUnsupported is what a system says that has no such thing: a measurement
// of it is left out.
var ErrUnsupported = errors.New("not supported")

// Durability says what an acknowledgement rests on.
type Durability string

const (
	// Synced: on the disks of a majority. Kafka's flush.messages=1 with
	// min.insync.replicas of a majority.
	Synced Durability = "fsync"
	// Unsynced: in the memory of replicas. A memory log of Strandline;
	// Kafka's default, which leaves the writing to the operating system.
	Unsynced Durability = "no fsync"
)

// LogConfig is what a log is created with.
type LogConfig struct {
	Durability     Durability
	Replicas       int           // 1, 3, ...; 0: the system's default
	Partitions     int           // 0: 1. Each is a log of its own to Strandline
	Retention      time.Duration // 0: for ever
	RetentionBytes int64         // 0: without bound
}

// Target is one log of a system under test. Every Sender and Reader that it
// gives out has a connection of its own.
type Target interface {
	// Sender opens a connection to append on.
	Sender(ctx context.Context, s Sending) (Sender, error)
	// Reader opens a connection that reads a range.
	Reader(ctx context.Context, r Range) (Reader, error)
	// Bounds reports which offsets of a partition, [start, end), can be read.
	Bounds(ctx context.Context, partition int) (start, end int64, err error)
	// Trim removes all below an offset of partition 0.
	Trim(ctx context.Context, before int64) error
	// Durability describes what an acknowledgement rests on, for people.
	Durability() string
	Close() error
}

// Sending is how a Sender sends. Its zero value is the client library's own
// way, except that nothing lingers.
type Sending struct {
	// InFlight bounds the requests without an answer on the connection; 0:
	// the library's default, which Strandline's client calls automatic.
	InFlight int
	// A request leaves when it has RequestBytes or RequestRecords, or when its
	// first record has waited for Linger. 0: the library decides.
	RequestBytes   int
	RequestRecords int
	Linger         time.Duration
	BufferBytes    int    // accepted and without an answer at most; 0: the library decides
	Compression    string // one of Compressions; empty: none
	Acks           Acks
	Once           Once
	Partitions     int  // as in LogConfig
	Explain        bool // the Sender is to be an ExplainingSender
}

// Compressions are all that are known.
var Compressions = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// Once says whether records are appended at most once: by Kafka's idempotent
// producer, by Strandline's session.
type Once int

const (
	// OnceDefault is what the library does by default, as far as it can with
	// the other settings.
	OnceDefault Once = iota
	OnceYes
	OnceNo
)

// Acks says whose acknowledgement a sender waits for, with Kafka's names.
type Acks int

const (
	AcksAll    Acks = 0 // -1 to Kafka; here the zero value
	AcksLeader Acks = 1
	AcksNone   Acks = 2 // 0 to Kafka
)

// ParseAcks reads -1 or all, 1 and 0.
func ParseAcks(text string) (Acks, error) {
	switch text {
	case "-1", "all":
		return AcksAll, nil
	case "1":
		return AcksLeader, nil
	case "0":
		return AcksNone, nil
	}
	return 0, fmt.Errorf("%q is not -1 (all), 0 or 1", text)
}

// Kafka is the number that Kafka's protocol has for it.
func (a Acks) Kafka() int16 {
	switch a {
	case AcksLeader:
		return 1
	case AcksNone:
		return 0
	}
	return -1
}

func (a Acks) String() string { return fmt.Sprint(a.Kafka()) }

// Sender appends. It is used by several workers at once; records that wait at
// the same time may share a request.
type Sender interface {
	// Append appends to a partition. It returns when the record is acknowledged, or when ctx ends.
	Append(ctx context.Context, partition int, value []byte) error
	// Send accepts a record for a partition and calls done once, when it is
	// acknowledged or has failed. It waits while too much is unanswered, but
	// not beyond ctx. The value must stay as it is until done.
	Send(ctx context.Context, partition int, value []byte, done func(error)) error
	// Close returns when everything is answered.
	Close() error
}

// AppendBySend is Append of a sender whose library cannot stop waiting when ctx
// ends: what was sent may be acknowledged after that.
func AppendBySend(ctx context.Context, s Sender, partition int, value []byte) error {
	answered := make(chan error, 1)
	if err := s.Send(ctx, partition, value, func(err error) { answered <- err }); err != nil {
		return err
	}
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Range is what a Reader reads: [From, Until) of a partition, or as many of
// them as are there. With Follow it waits for more at the end.
type Range struct {
	Partition   int
	From, Until int64
	Follow      bool
}

// BlockReader is a Reader that does not decode records, if a system has one:
// it counts what it was given.
type BlockReader interface {
	// NextBlock returns how many records there were, and how many bytes they
	// took as they are stored, and io.EOF at the end.
	NextBlock(ctx context.Context) (records int64, size int, err error)
}

// Reader hands out the values of a log in order.
type Reader interface {
	// Next returns the next values, one at least, and io.EOF at the end. They
	// are valid until the next call.
	Next(ctx context.Context) ([][]byte, error)
	Close() error
}

// Progress receives the progress of a workload, in units of its own. It must be
// cheap, and safe for several goroutines.
type Progress interface {
	// Add reports that n more units are done.
	Add(n int64)
}

// Silent is a Progress without output.
type Silent struct{}

func (Silent) Add(int64) {}
