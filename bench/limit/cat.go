package limit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Throughput is bytes moved in a time.
type Throughput struct {
	Bytes   int64
	Elapsed time.Duration
}

// MiBPerSecond is the rate in MiB/s.
func (t Throughput) MiBPerSecond() float64 {
	if t.Elapsed <= 0 {
		return 0
	}
	return float64(t.Bytes) / (1 << 20) / t.Elapsed.Seconds()
}

// Segments lists the segment files, Strandline's and Kafka's, below a data
// directory, in the order of
// their names, which within one log is the order of the log. The directory itself
// may be a symbolic link.
func Segments(directory string) ([]string, error) {
	directory, err := filepath.EvalSymlinks(directory)
	if err != nil {
		return nil, err
	}
	var files []string
	err = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // recycled while we were looking
		}
		if err == nil && entry.Type().IsRegular() && isSegment(path) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// Forget drops the files' pages from the kernel's cache, so that the next
// reading comes from the disk.
func Forget(files []string) error {
	return each(files, func(f *os.File) error { return forget(f) })
}

// Cat reads the files one after the other in chunks of 1 MiB and throws the
// bytes away.
func Cat(ctx context.Context, files []string) (Throughput, error) {
	var t Throughput
	chunk := make([]byte, 1<<20)
	start := time.Now()
	err := each(files, func(f *os.File) error {
		for ctx.Err() == nil {
			n, err := f.Read(chunk)
			t.Bytes += int64(n)
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	t.Elapsed = time.Since(start)
	return t, err
}

// each opens one file after the other. One that has gone is passed over: the
// server may recycle a segment at any time.
func each(files []string, visit func(*os.File) error) error {
	for _, path := range files {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = visit(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func isSegment(path string) bool {
	extension := filepath.Ext(path)
	return extension == ".seg" || extension == ".log"
}
