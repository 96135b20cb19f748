// Package readers keeps readers of logs between the requests of Kafka consumers, and
// searches logs for them.
package readers

import (
	"context"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
)

const (
	// ChunkCost is the cost of a chunk in the budget of answers, in bytes.
	ChunkCost = 1<<20 + 256<<10

	// maxKept bounds the readers that wait for a Fetch to continue from
	// their position, and KeptTime how long each waits: a reader holds
	// some MiB and keeps its segment from being used again.
	maxKept  = 64
	KeptTime = 2 * time.Second
)

// Kept is a reader between two requests. A consumer of a long log requests one part after the
// other. A kept reader at the offset of the next part has it in memory, or is already reading it.
type Kept struct {
	Log    string
	id     uint64        // of the log
	Next   record.Offset // of the first record that was not given
	reader guard.Reader
	// The rest of the newest chunk from Next on, in left or in a file. Its memory is released when
	// the chunk is used up.
	left    [][]byte
	stored  reading.Stored
	release func()
	taken   int    // chunks that the answer at hand has begun
	ahead   *ahead // chunks read after left; nil: the reader is used directly
	since   time.Time
}

// Fill begins the next chunk. The error is io.EOF at the end of the log.
func (r *Kept) Fill(ctx context.Context) error {
	c, err := r.reader.Next(ctx)
	if err == nil {
		r.begin(c)
	}
	return err
}

func (r *Kept) begin(c reading.Chunk) {
	r.left, r.stored, r.release = c.Parts, c.Stored, c.Release
	r.taken++
}

// Used reports whether the newest chunk is used up.
func (r *Kept) Used() bool { return len(r.left) == 0 && len(r.stored.Batches) == 0 }

// Run is a run of whole batches, in memory or in a file.
type Run struct {
	Bytes []byte
	// Without bytes: Size bytes of Stored.File at Position.
	Stored   *reading.Stored
	Position int64
	Size     int
}

// Take moves whole batches of at most limit bytes from the rest of the chunk to dst; with whole, it
// moves the first even if it is larger. done releases a chunk that is used up; call it when the
// taken batches have been sent.
func (r *Kept) Take(dst []Run, limit int, whole bool) (_ []Run, bytes int, done func()) {
	if len(r.stored.Batches) > 0 {
		return r.takeStored(dst, limit, whole)
	}
	for len(r.left) > 0 {
		run := r.left[0]
		if len(run) > limit-bytes {
			n := cut(run, limit-bytes)
			if n == 0 && whole && bytes == 0 {
				n = batchSize(run)
			}
			if n == 0 {
				return dst, bytes, nil
			}
			if n < len(run) {
				r.left[0] = run[n:]
				r.Next = record.Batch(run[n:]).BaseOffset()
				return append(dst, Run{Bytes: run[:n:n]}), bytes + n, nil
			}
		}
		dst = append(dst, Run{Bytes: run})
		bytes += len(run)
		r.left = r.left[1:]
		r.Next = LastBatch(run).End()
	}
	done, r.release = r.release, nil
	return dst, bytes, done
}

func (r *Kept) takeStored(dst []Run, limit int, whole bool) (_ []Run, bytes int, done func()) {
	stored := r.stored
	for i, b := range stored.Batches {
		if b.Size > limit-bytes && (bytes > 0 || !whole) {
			r.stored.Batches = stored.Batches[i:]
			return dst, bytes, nil
		}
		if last := len(dst) - 1; bytes > 0 && dst[last].Position+int64(dst[last].Size) == b.Position {
			dst[last].Size += b.Size
		} else {
			dst = append(dst, Run{Stored: &stored, Position: b.Position, Size: b.Size})
		}
		bytes += b.Size
		r.Next = b.End
	}
	r.stored = reading.Stored{}
	done, r.release = r.release, nil
	return dst, bytes, done
}

// cut is how many bytes of a run are whole batches within limit.
func cut(run []byte, limit int) int {
	n := 0
	for n < len(run) {
		size := batchSize(run[n:])
		if n+size > limit {
			break
		}
		n += size
	}
	return n
}

// LastBatch returns the last batch of a run. The run is stored, so the batch is known to be
// complete.
func LastBatch(run []byte) record.Batch {
	for {
		size := batchSize(run)
		if size >= len(run) {
			return record.Batch(run)
		}
		run = run[size:]
	}
}

// batchSize is the size of the first batch of a run, which is stored and so
// known to be whole.
func batchSize(run []byte) int {
	batch, _, err := record.Split(run)
	if err != nil {
		return len(run)
	}
	return len(batch)
}

func (r *Kept) Close() {
	r.left, r.stored = nil, reading.Stored{}
	if r.release != nil {
		r.release()
		r.release = nil
	}
	if r.ahead != nil {
		r.ahead.close()
		r.ahead = nil
	}
	r.reader.Close()
}

// Pool holds the readers that wait for a request to continue with them.
type Pool struct {
	node backend.Node

	mu     sync.Mutex
	all    []*Kept // oldest first, at most maxKept
	closed bool
}

// NewPool returns an empty pool of readers of n. Close it.
func NewPool(n backend.Node) *Pool { return &Pool{node: n} }

// Open returns a kept reader at an offset, or a new one. With stored, its batches may be in files.
func (s *Pool) Open(ctx context.Context, log string, id uint64, at record.Offset, stored bool) (*Kept, error) {
	s.mu.Lock()
	for i := len(s.all) - 1; i >= 0; i-- {
		if r := s.all[i]; r.Next == at && r.id == id {
			s.all = slices.Delete(s.all, i, i+1)
			s.mu.Unlock()
			return r, nil
		}
	}
	s.mu.Unlock()
	reader, err := s.node.Read(ctx, backend.System, log, reading.Request{
		From: reading.From{Kind: reading.FromOffset, Offset: at}, Until: reading.NoOffset, Stored: stored,
	})
	if err != nil {
		return nil, err
	}
	return &Kept{Log: log, id: id, Next: at, reader: reader}, nil
}

// Keep adds a reader to the pool. If the pool is full, it closes the one that has waited longest.
func (s *Pool) Keep(r *Kept) {
	r.since = time.Now()
	s.mu.Lock()
	out := r
	if !s.closed {
		out = nil
		if s.all = append(s.all, r); len(s.all) > maxKept {
			out = s.all[0]
			s.all = slices.Delete(s.all, 0, 1)
		}
	}
	s.mu.Unlock()
	if out != nil {
		out.Close()
	}
}

// Waiting returns how many readers wait, and how many chunks they have read ahead.
func (s *Pool) Waiting() (readers, chunks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if r.ahead != nil {
			chunks += len(r.ahead.chunks)
		}
	}
	return len(s.all), chunks
}

// Expire closes readers that no request has continued within their time.
func (s *Pool) Expire(now time.Time) {
	s.drop(func(r *Kept) bool { return now.Sub(r.since) > KeptTime })
}

// Forget closes the readers of a log that will be deleted.
func (s *Pool) Forget(log string) {
	s.drop(func(r *Kept) bool { return r.Log == log })
}

func (s *Pool) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.drop(func(*Kept) bool { return true })
}

func (s *Pool) drop(which func(*Kept) bool) {
	s.mu.Lock()
	var dropped []*Kept
	s.all = slices.DeleteFunc(s.all, func(r *Kept) bool {
		if !which(r) {
			return false
		}
		dropped = append(dropped, r)
		return true
	})
	s.mu.Unlock()
	for _, r := range dropped {
		r.Close()
	}
}
