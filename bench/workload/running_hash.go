package workload

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/cespare/xxhash/v2"
)

// RunningHash is a hash over values in their order. Readers of the same values in
// the same order, each once, have the same hash and the same count.
type RunningHash struct {
	Count  int64
	digest xxhash.Digest
}

// NewRunningHash begins with no values.
func NewRunningHash() *RunningHash {
	h := new(RunningHash)
	h.digest.Reset()
	return h
}

// Add takes the next value in.
func (h *RunningHash) Add(value []byte) {
	var length [4]byte
	binary.LittleEndian.PutUint32(length[:], uint32(len(value)))
	_, _ = h.digest.Write(length[:]) // never fails
	_, _ = h.digest.Write(value)
	h.Count++
}

// Check proves that other has seen the same.
func (h *RunningHash) Check(other *RunningHash) error {
	if h.Count != other.Count {
		return fmt.Errorf("%d records were written, but %d were read", h.Count, other.Count)
	}
	if h.digest.Sum64() != other.digest.Sum64() {
		return fmt.Errorf("the %d records read differ from the records written, or are in another order", h.Count)
	}
	return nil
}

// CheckLog reads whole partitions and proves that each holds what was written
// to it, with those acks, and nothing else. What the leader alone has
// acknowledged is waited for: it can be read only once it is committed.
func CheckLog(ctx context.Context, target Target, acks Acks, written []*RunningHash) error {
	for i, w := range written {
		var err error
		if acks == AcksLeader {
			err = awaitEnd(ctx, target, i, w.Count)
		}
		if err == nil {
			err = checkPartition(ctx, target, i, w)
		}
		if err != nil {
			return fmt.Errorf("partition %d: %w", i, err)
		}
	}
	return nil
}

// commitPatience is how long records without a commit may take to get one. A
// commit takes milliseconds; what is missing after seconds is lost.
const commitPatience = 5 * time.Second

// awaitEnd returns when a partition that began empty has so many records, or
// when that has taken too long: the error of the reader then says what is missing.
func awaitEnd(ctx context.Context, target Target, partition int, records int64) error {
	const pause = 5 * time.Millisecond
	over := time.After(commitPatience)
	for {
		_, end, err := target.Bounds(ctx, partition)
		if err != nil || end >= records {
			return err
		}
		select {
		case <-time.After(pause):
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func checkPartition(ctx context.Context, target Target, partition int, written *RunningHash) error {
	start, end, err := target.Bounds(ctx, partition)
	if err != nil {
		return err
	}
	read := NewRunningHash()
	if start < end {
		reader, err := target.Reader(ctx, Range{Partition: partition, From: start, Until: end})
		if err != nil {
			return err
		}
		defer shutReader(ctx, reader)
		for {
			values, err := reader.Next(ctx)
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf("after %d records: %w", read.Count, err)
			}
			for _, value := range values {
				read.Add(value)
			}
		}
	}
	return written.Check(read)
}
