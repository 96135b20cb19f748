package log

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"strandline.dev/client"
	"strandline.dev/internal/record"
)

// backupSide is a file that "strandline read -o raw" made: record batches, one after the other. They are
// not those that the log has, so it has no digests.
type backupSide struct {
	name       string
	file       *os.File
	start, end record.Offset // of the records in it
}

// errNoDigests is the answer of a side that can only be compared record by record.
var errNoDigests = errors.New("a backup has other batches than its log, and no digests")

func openBackup(name, path string) (*backupSide, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	s := &backupSide{name: name, file: file}
	first := true
	err = s.walk(func(header record.Batch, _, _ int64) bool {
		if first {
			s.start, first = header.BaseOffset(), false
		}
		s.end = header.End()
		return true
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

// walk calls visit with the header and the place of each batch, until that returns false.
func (s *backupSide) walk(visit func(header record.Batch, at, size int64) bool) error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	header := make(record.Batch, record.BatchHeaderSize)
	end := record.Offset(0)
	for at := int64(0); at < info.Size(); {
		if _, err := s.file.ReadAt(header, at); err != nil && err != io.EOF {
			return err
		}
		size := 12 + int64(int32(binary.BigEndian.Uint32(header[8:])))
		whole := at+record.BatchHeaderSize <= info.Size()
		switch {
		case whole && (size < record.BatchHeaderSize || size > record.MaxBatchBytes || header.Count() <= 0 || header.BaseOffset() < end):
			return fmt.Errorf("%s has no batch at byte %d that continues the one before: it is damaged, or \"strandline read -o raw\" did not write it", s.file.Name(), at)
		case !whole || at+size > info.Size():
			return fmt.Errorf("%s ends in the middle of the batch at byte %d: it is incomplete, or \"strandline read -o raw\" did not write it", s.file.Name(), at)
		}
		if !visit(header, at, size) {
			return nil
		}
		end, at = header.End(), at+size
	}
	return nil
}

func (s *backupSide) String() string { return s.name }
func (s *backupSide) Close() error   { return s.file.Close() }

func (s *backupSide) digest(context.Context, int64) (client.Digest, error) {
	return client.Digest{}, errNoDigests
}

func (s *backupSide) prove(context.Context, int64, client.Digest) (client.Record, error) {
	return client.Record{}, errNoDigests
}

func (s *backupSide) bounds(context.Context) (start, end int64, err error) {
	return int64(s.start), int64(s.end), nil
}

func (s *backupSide) records(_ context.Context, from, to int64) (recordReader, error) {
	return pulled(s.all(record.Offset(from), record.Offset(to))), nil
}

// all yields the records of [from, to), and nothing behind an error. It has one batch in memory.
func (s *backupSide) all(from, to record.Offset) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		var memory []byte
		more := true
		err := s.walk(func(header record.Batch, at, size int64) bool {
			if header.End() <= from || header.BaseOffset() >= to {
				return header.BaseOffset() < to
			}
			if int64(cap(memory)) < size {
				memory = make([]byte, size)
			}
			batch := record.Batch(memory[:size])
			_, err := s.file.ReadAt(batch, at)
			if err == nil {
				err = batch.Check()
			}
			if err != nil {
				yield(record.Record{}, fmt.Errorf("%s, batch at byte %d: %w", s.file.Name(), at, err))
				more = false
				return false
			}
			for r, err := range batch.Records {
				if err == nil && (r.Offset < from || r.Offset >= to) {
					continue
				}
				if more = yield(r, err) && err == nil; !more {
					break
				}
			}
			return more
		})
		if err != nil && more {
			yield(record.Record{}, err)
		}
	}
}
