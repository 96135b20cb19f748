package kafkaserver

import (
	"context"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
)

// keptReader is a reader between two requests. A consumer that reads a long log
// asks for one piece after the other; a reader that stands where the next piece
// begins has it at hand, or is reading it already.
type keptReader struct {
	log    string
	id     uint64        // of the log
	next   record.Offset // of the first record that was not given
	reader Reader
	// left is what the newest chunk still holds from next on; its memory goes
	// back when the chunk is used up.
	left    [][]byte
	release func()
	taken   int    // chunks that the answer at hand has begun
	ahead   *ahead // what comes behind left; nil: the reader is asked itself
	since   time.Time
}

// fill begins the next chunk. The error is io.EOF at the end of the log.
func (r *keptReader) fill(ctx context.Context) error {
	c, err := r.reader.Next(ctx)
	if err == nil {
		r.begin(c)
	}
	return err
}

func (r *keptReader) begin(c node.Chunk) {
	r.left, r.release = c.Parts, c.Release
	r.taken++
}

// take moves whole batches of at most limit bytes from left to dst; with whole,
// the first even if it is larger. done is the release of a chunk that is used
// up: it may be called when what was taken has been sent.
func (r *keptReader) take(dst [][]byte, limit int, whole bool) (_ [][]byte, bytes int, done func()) {
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
				r.next = record.Batch(run[n:]).BaseOffset()
				return append(dst, run[:n:n]), bytes + n, nil
			}
		}
		dst = append(dst, run)
		bytes += len(run)
		r.left = r.left[1:]
		r.next = lastBatch(run).End()
	}
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

func lastBatch(run []byte) record.Batch {
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

func (r *keptReader) close() {
	r.left = nil
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

// keptReaders are those that wait for a request to go on with them.
type keptReaders struct {
	node Node

	mu     sync.Mutex
	all    []*keptReader // oldest first, at most maxKeptReaders
	closed bool
}

func newKeptReaders(n Node) *keptReaders { return &keptReaders{node: n} }

// open finds a reader that stands at an offset, or begins one.
func (s *keptReaders) open(ctx context.Context, log string, id uint64, at record.Offset) (*keptReader, error) {
	s.mu.Lock()
	for i := len(s.all) - 1; i >= 0; i-- {
		if r := s.all[i]; r.next == at && r.id == id {
			s.all = slices.Delete(s.all, i, i+1)
			s.mu.Unlock()
			return r, nil
		}
	}
	s.mu.Unlock()
	reader, err := s.node.Read(ctx, anonymous, log, node.ReadRequest{
		From: node.From{Kind: node.FromOffset, Offset: at}, Until: node.NoOffset,
	})
	if err != nil {
		return nil, err
	}
	return &keptReader{log: log, id: id, next: at, reader: reader}, nil
}

// keep lets a reader wait; the one that has waited longest makes room.
func (s *keptReaders) keep(r *keptReader) {
	r.since = time.Now()
	s.mu.Lock()
	out := r
	if !s.closed {
		out = nil
		if s.all = append(s.all, r); len(s.all) > maxKeptReaders {
			out = s.all[0]
			s.all = slices.Delete(s.all, 0, 1)
		}
	}
	s.mu.Unlock()
	if out != nil {
		out.close()
	}
}

// expire closes those that nobody came back to.
func (s *keptReaders) expire(now time.Time) {
	s.drop(func(r *keptReader) bool { return now.Sub(r.since) > keptReaderTime })
}

// forget closes those of a log that is going to be deleted.
func (s *keptReaders) forget(log string) {
	s.drop(func(r *keptReader) bool { return r.log == log })
}

func (s *keptReaders) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.drop(func(*keptReader) bool { return true })
}

func (s *keptReaders) drop(which func(*keptReader) bool) {
	s.mu.Lock()
	var dropped []*keptReader
	s.all = slices.DeleteFunc(s.all, func(r *keptReader) bool {
		if !which(r) {
			return false
		}
		dropped = append(dropped, r)
		return true
	})
	s.mu.Unlock()
	for _, r := range dropped {
		r.close()
	}
}
