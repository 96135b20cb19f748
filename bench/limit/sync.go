package limit

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// scratchBytes is the size of the zero-filled file that syncs are measured
// on. It wraps around, as a log does that recycles its segments.
const scratchBytes = 16 << 20

// SyncCost is the time that one write of Bytes bytes takes, with the
// fdatasync behind it and without.
type SyncCost struct {
	Bytes int
	// Synced is write and fdatasync together, Written the write alone.
	Synced, Written *hdrhistogram.Histogram
}

// Scratch is a zero-filled file without a name: it goes away with the process,
// however that ends.
type Scratch struct {
	file     *os.File
	position int64
}

// NewScratch makes a scratch file on the disk that holds the directory.
func NewScratch(directory string) (*Scratch, error) {
	f, err := os.CreateTemp(directory, ".strandline-measure-*")
	if err != nil {
		return nil, fmt.Errorf("create a file to measure on: %w", err)
	}
	s := &Scratch{file: f}
	if err := s.prepare(); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

func (s *Scratch) prepare() error {
	if err := os.Remove(s.file.Name()); err != nil {
		return fmt.Errorf("unlink the file to measure on: %w", err)
	}
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < scratchBytes; at += int64(len(zeros)) {
		if _, err := s.file.WriteAt(zeros, at); err != nil {
			return fmt.Errorf("fill the file to measure on: %w", err)
		}
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync the file to measure on: %w", err)
	}
	return nil
}

// Close gives the file's room back.
func (s *Scratch) Close() error { return s.file.Close() }

// Sync measures writes of size bytes, one after the other, for about the given
// time: first with an fdatasync after each, then without. A context that ends
// ends the measurement early; what was measured until then is returned with
// the context's error.
func (s *Scratch) Sync(ctx context.Context, size int, duration time.Duration) (SyncCost, error) {
	cost := SyncCost{Bytes: size, Synced: NewHistogram(), Written: NewHistogram()}
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7 + 1)
	}
	for end := time.Now().Add(duration); time.Now().Before(end) && ctx.Err() == nil; {
		start := time.Now()
		if err := s.write(data); err != nil {
			return cost, err
		}
		if err := datasync(s.file); err != nil {
			return cost, fmt.Errorf("fdatasync: %w", err)
		}
		Observe(cost.Synced, time.Since(start))
	}
	for range cost.Synced.TotalCount() {
		start := time.Now()
		if err := s.write(data); err != nil {
			return cost, err
		}
		Observe(cost.Written, time.Since(start))
	}
	// The next measurement must not pay for the bytes that this one left.
	if err := datasync(s.file); err != nil {
		return cost, fmt.Errorf("fdatasync: %w", err)
	}
	return cost, ctx.Err()
}

func (s *Scratch) write(data []byte) error {
	if s.position+int64(len(data)) > scratchBytes {
		s.position = 0
	}
	if _, err := s.file.WriteAt(data, s.position); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	s.position += int64(len(data))
	return nil
}
