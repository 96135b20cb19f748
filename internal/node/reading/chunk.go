package reading

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// UnknownAge is the age of a replica that has not heard from a leader yet.
const UnknownAge time.Duration = math.MaxInt64

// Chunk is a run of committed records as stored.
type Chunk struct {
	// The requested records are [First, First+Count).
	First record.Offset
	Count int
	// Parts are runs of whole batches, in order and contiguous: the first
	// batch may begin below First, the last may end beyond First+Count. They
	// are shared with other readers: never change them.
	Parts [][]byte
	Bytes int // of all parts
	// Stored, if it has batches, is the location of the records in a file, instead of Parts.
	Stored Stored
	// The log's committed bounds when the chunk was made.
	Start, End record.Offset
	// Selected means that the read has a filter. The chunk has the Count selected records of
	// [First, Next), possibly none, in batches with gaps. It also lists the records on which the
	// expression failed, which are left out.
	Selected bool
	Next     record.Offset
	Failed   []Failed
	// Age is how old the knowledge of End may be; on a leader, how long ago it asked a
	// majority that still followed it, and 0 where it is the only voter. UnknownAge where
	// nothing has been confirmed yet.
	Age time.Duration
	// Release frees the memory of the parts, which must not be used any more. It may be called at
	// most once, by the holder of the only copy of the chunk. It is never nil in a chunk of
	// Reader.Next.
	Release func()
	// shared: the parts lie in the tail, in no memory of the chunk's own.
	shared bool
	// slow is the memory that batches which Records inflates count in; nil: nobody counts them.
	slow *metered
}

// Stored is a run of batches in a file.
type Stored = segment.Stored

// Records yields the requested records, and stops after an error. The bytes of a record alias the
// parts unless its batch is compressed. A metered chunk inflates such a batch in a turn of its
// reader, for which ctx bounds the wait, and counts it in the node's memory for reads until Taken. It may leave the rest of
// its batches to the next chunk, which the reader waits for, see Through.
func (c *Chunk) Records(ctx context.Context) iter.Seq2[record.Record, error] {
	return c.RecordsOf(ctx, nil)
}

// RecordsOf is like Records, of the batches that are wanted only; nil: of all.
func (c *Chunk) RecordsOf(ctx context.Context, wanted func(record.Batch) bool) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		end := c.First + record.Offset(c.Count)
		if c.Selected {
			end = c.Next
		}
		bytes := c.Bytes // of this batch and those behind it
		for _, run := range c.Parts {
			for len(run) > 0 {
				batch, rest, err := record.Split(run)
				if err != nil {
					yield(record.Record{}, record.Refuse(record.Corrupt, "stored batch at offset %d: %v", c.First, err))
					return
				}
				if run = rest; wanted != nil && !wanted(batch) {
					bytes -= len(batch)
					continue
				}
				records := batch.RecordsAs(c.Selected)
				if c.slow != nil && batch.Compression() != record.None {
					records = c.slow.inflated(ctx, batch, c.Selected)
				}
				for r, err := range records {
					switch {
					case errors.Is(err, errOwes):
						c.slow.left = left{max(batch.BaseOffset(), c.First), bytes}
						return
					case err != nil:
						yield(r, err)
						return
					case r.Offset < c.First:
						continue
					case r.Offset >= end || !yield(r, nil):
						return
					}
				}
				bytes -= len(batch)
			}
		}
	}
}

// Through returns the end of what Records has yielded, or would, when it has ended and before the reader's next chunk.
func (c *Chunk) Through() record.Offset {
	switch {
	case c.slow != nil && c.slow.left.bytes > 0:
		return c.slow.left.from
	case c.Selected:
		return c.Next
	default:
		return c.First + record.Offset(c.Count)
	}
}

// Taken releases the memory of the batches that Records has inflated, but for that of the record at
// hand. Its caller has no use any more for the records before that one: the client has taken them.
// What is not released so is released when the reader is closed.
func (c *Chunk) Taken() {
	if c.slow != nil {
		c.slow.inflations.release()
	}
}
