// Package workload holds what is measured: appends spread over connections,
// and long reads. A workload knows no system under test. It drives a Target,
// and every driver in bench/driver is one.
package workload

import "context"

// Target is one log of a system under test. Every Appender, Filler and Reader
// that it gives out has a connection of its own.
type Target interface {
	// Appender opens a connection with one request outstanding at most.
	Appender(ctx context.Context) (Appender, error)
	// Filler opens a connection that appends as fast as it can.
	Filler(ctx context.Context) (Filler, error)
	// Reader opens a connection that reads the records of [from, until), or as
	// many of them as are there.
	Reader(ctx context.Context, from, until int64) (Reader, error)
	// Bounds tells which offsets, [start, end), can be read.
	Bounds(ctx context.Context) (start, end int64, err error)
}

// Appender is used by several workers at once. Appends of one appender that
// wait at the same time may share a request.
type Appender interface {
	// Append returns when the record is acknowledged.
	Append(ctx context.Context, value []byte) error
	Close() error
}

// Filler appends in the order of the calls, and keeps its own copy of a value.
type Filler interface {
	// Fill may return before the record is acknowledged.
	Fill(ctx context.Context, value []byte) error
	// Close returns when everything is acknowledged.
	Close() error
}

// Reader hands out the values of a log in order.
type Reader interface {
	// Next returns the next values, one at least, and io.EOF at the end. They
	// are valid until the next call.
	Next(ctx context.Context) ([][]byte, error)
	Close() error
}

// Progress hears how far a workload has come, in units of its own. It must be
// cheap, and safe for several goroutines.
type Progress interface {
	// Add reports that n more units are done.
	Add(n int64)
}

// Silent is a Progress that nobody watches.
type Silent struct{}

func (Silent) Add(int64) {}
