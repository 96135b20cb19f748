// Package reading reads a log for a client: a Request says what, a Reader gives it in
// Chunks of about 1 MiB as long as the log's knowledge is as fresh as asked for. Reads of
// old records pause where cores are short and the log takes appends (Pace, Intake), and
// metered ones hold no more than their part of the node's memory. The log itself is
// known as a Log; where a read begins is the node's to find.
package reading

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/filter"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
)

// chunkBytes is how much a reader takes at once: large enough for the disk and
// gRPC to run at full speed, small enough for many readers.
const chunkBytes = 1 << 20

// Reader gives the committed records of a log in order. It belongs to one
// goroutine.
type Reader struct {
	log    Log
	id     uint64 // of the log
	reader *runtime.Reader
	tail   *tail.Tail
	pacer  pacer
	// paced: the newest chunk, of this size, had old records of a log that receives appends.
	paced     bool
	given     int
	request   Request
	first     record.Offset
	next      record.Offset
	until     record.Offset // exclusive; math.MaxInt64: none
	bytes     int64         // given so far
	done      bool
	selecting *selecting // the work of the filter; nil: there is none
	// slow is the memory of a metered reader; nil: it is not metered.
	slow *metered
	// closed is called when the reader is closed; nil: it is the node's own, which is
	// not paced.
	closed func()
}

// Log is the log of a reader, as its node knows it.
type Log interface {
	// Age is how old the knowledge of the log's end may be.
	Age() time.Duration
	// Fresh refuses a read whose bound is not kept any more.
	Fresh(*Request) error
	// Appending reports whether the log has written an entry lately.
	Appending() bool
	// RefuseDamaged turns a refusal for damage that is about to be repaired into one
	// that sends the caller elsewhere.
	RefuseDamaged(error) error
}

// Source is what a reader reads, and what bounds it.
type Source struct {
	Log     Log
	ID      uint64
	Replica *runtime.Replica
	Intake  *Intake // of the log
	Pace    *Pace   // of the node
	Turns   *Turns  // of the node
	// Filter is what Turns.Filter made of the request's, for this read only; nil: there is none.
	Filter *filter.Filter
	// Skipped counts segments that a filter did not have to read.
	Skipped func(segments int)
	// Reads and Stalled are what metered chunks are counted in, see budget.Memory.
	Reads   *budget.Pool
	Stalled *budget.Stalled
}

// New begins a read at first. closed is called when it is closed.
func New(s Source, q Request, first record.Offset, closed func()) *Reader {
	r := &Reader{
		log: s.Log, id: s.ID, tail: s.Replica.Tail(), reader: s.Replica.NewReader(first), pacer: pacer{pace: s.Pace, intake: s.Intake},
		request: q, first: first, next: first, until: math.MaxInt64, closed: closed,
	}
	if q.Until >= 0 {
		r.until = q.Until
	}
	if s.Filter != nil {
		r.selecting = newSelecting(r, &q, s, first)
		r.request.MaxRecords, r.request.MaxBytes = 0, 0
	} else if q.MaxRecords > 0 && int64(r.until)-int64(first) > q.MaxRecords {
		r.until = first + record.Offset(q.MaxRecords)
	}
	if q.Metered {
		r.slow = newMetered(s.Reads, s.Stalled, s.Turns)
		r.slow.sparing = q.Little
		r.slow.payments.setBy(q.PayBy)
	}
	return r
}

// NewOwn begins a read of the node's own, of [first, until).
func NewOwn(s Source, first, until record.Offset) *Reader {
	return &Reader{log: s.Log, id: s.ID, tail: s.Replica.Tail(), reader: s.Replica.NewReader(first), first: first, next: first, until: until}
}

// Log is the id of the log that is read.
func (r *Reader) Log() uint64 { return r.id }

// First is the offset that the read begins at.
func (r *Reader) First() record.Offset { return r.first }

// Next returns the next chunk of about 1 MiB, or less where memory is short. At the
// end of the log it waits if the read follows, until ctx ends. It returns io.EOF at
// the first limit.
func (r *Reader) Next(ctx context.Context) (Chunk, error) {
	next := r.nextWhole
	if r.selecting != nil {
		next = r.selecting.next
	}
	c, err := next(ctx)
	c.slow = r.slow
	return c, err
}

// nextWhole is Next of chunks as they are stored.
func (r *Reader) nextWhole(ctx context.Context) (Chunk, error) {
	if r.slow == nil {
		return r.nextChunk(ctx)
	}
	if err := r.pay(ctx); err != nil {
		return Chunk{}, err
	}
	r.slow.mu.Lock()
	defer r.slow.mu.Unlock()
	c, err := r.nextMetered(ctx)
	r.slow.passed += int64(c.Bytes)
	return c, err
}

func (r *Reader) nextChunk(ctx context.Context) (Chunk, error) {
	for {
		if r.done || r.next >= r.until {
			return Chunk{}, io.EOF
		}
		size := r.slow.most(chunkBytes)
		if r.paced {
			if err := r.pacer.hold(ctx, r.given); err != nil {
				return Chunk{}, err
			}
			size = min(size, pacedChunkBytes)
		}
		if err := r.log.Fresh(&r.request); err != nil {
			return Chunk{}, err
		}
		age := r.log.Age() // read before the end, so that the age can only be too high
		if c, ok := r.nextStored(size); ok {
			c.Age = age
			return c, nil
		}
		if err := r.slow.take(ctx, r); err != nil {
			return Chunk{}, err
		}
		entries, err := r.reader.Next(r.until, size)
		if err != nil {
			r.slow.give()
			return Chunk{}, r.log.RefuseDamaged(err)
		}
		start, end := entries.Start, entries.End
		r.paced, r.given = entries.Stored() && r.closed != nil && r.log.Appending(), 0
		if len(entries.Entries) > 0 {
			c, err := r.cut(entries.Entries)
			if err != nil {
				r.slow.give()
				return Chunk{}, err
			}
			r.given = c.Bytes
			c.Start, c.End, c.Release, c.Age, c.shared = start, end, entries.Release, age, !entries.Stored()
			if c.Count == 0 {
				r.slow.give()
				continue
			}
			return c, nil
		}
		r.slow.give()
		if !r.request.Follow {
			return Chunk{}, io.EOF
		}
		changed := r.tail.Changed(start, end)
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-r.request.tooOld():
		case <-ctx.Done():
			return Chunk{}, ctx.Err()
		}
	}
}

// nextStored is nextChunk for records that may stay where they lie.
func (r *Reader) nextStored(size int) (Chunk, bool) {
	if !r.request.Stored {
		return Chunk{}, false
	}
	run, from, ok := r.reader.NextStored(r.until, size)
	if !ok {
		return Chunk{}, false
	}
	c := Chunk{First: r.next, Stored: run, Start: from.Start, End: from.End, Release: run.Release}
	for i := range run.Batches {
		c.Bytes += run.Batches[i].Size
	}
	r.next = min(run.Batches[len(run.Batches)-1].End, r.until)
	c.Count = int(r.next - c.First)
	r.paced, r.given = r.closed != nil && r.log.Appending(), c.Bytes
	return c, true
}

// Close releases what the reader holds, but for chunks that it has given out.
func (r *Reader) Close() {
	if r.slow != nil {
		r.slow.mu.Lock()
		defer r.slow.mu.Unlock()
		r.drop()
		r.slow.payments.end()
		r.slow.given.releaseAll()
	}
	r.reader.Close()
	if r.closed != nil {
		r.closed()
	}
}

// cut returns the batches of whole entries that are within the limits.
func (r *Reader) cut(frames []segment.Entry) (Chunk, error) {
	c := Chunk{First: r.next}
	c.Parts = make([][]byte, 0, len(frames))
	for i := range frames {
		f := &frames[i]
		if r.request.UntilTime > 0 && f.Time >= r.request.UntilTime {
			r.done = true
			break
		}
		e, err := record.ParseEntry(f.Payload)
		if err != nil {
			return c, record.Refuse(record.Corrupt, "entry %d cannot be read: %v", f.Index, err)
		}
		part, end, err := r.batches(e)
		if err != nil {
			return c, record.Refuse(record.Corrupt, "entry %d cannot be read: %v", f.Index, err)
		}
		if len(part) > 0 {
			c.Parts = append(c.Parts, part)
			c.Bytes += len(part)
			r.bytes += int64(len(part))
			r.next = end
		}
		if r.done || r.next >= r.until {
			break
		}
	}
	r.next = min(r.next, r.until)
	c.Count = int(r.next - c.First)
	return c, nil
}

// batches returns the batches of an entry that hold wanted records, and the
// offset after them.
func (r *Reader) batches(e record.Entry) ([]byte, record.Offset, error) {
	limited := r.request.MaxBytes > 0
	if e.First >= r.next && e.End() <= r.until && !limited {
		return e.Body, e.End(), nil
	}
	from, to, at := -1, 0, e.First
	for i, rest := 0, e.Body; i < e.Batches; i++ {
		m := e.Meta(i)
		first, end := at, at+record.Offset(m.Count)
		if uint64(m.Size) > uint64(len(rest)) {
			return nil, 0, fmt.Errorf("batch %d is cut short", i)
		}
		position := len(e.Body) - len(rest)
		rest = rest[m.Size:]
		at = end
		if end <= r.next {
			continue
		}
		if first >= r.until {
			break
		}
		given := r.bytes
		if from >= 0 {
			given += int64(position - from)
		}
		if limited && given > 0 && given+int64(m.Size) > r.request.MaxBytes {
			r.done = true
			at = first
			break
		}
		if from < 0 {
			from = position
		}
		to = position + int(m.Size)
	}
	if from < 0 {
		return nil, at, nil
	}
	return e.Body[from:to], at, nil
}
