package reading

import (
	"context"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/filter"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

const (
	// A chunk is returned after progressBytes of stored batches were scanned, or progressTime has
	// passed, even if no record was selected.
	progressBytes = 4 << 20
	progressTime  = 500 * time.Millisecond
	// selectedBytes is where a chunk of selected records ends. Only a batch that inflates to
	// more is divided.
	selectedBytes = 1 << 20
	// maxFailed is how many failed records a chunk names.
	maxFailed = 100
)

// Failed is a record that an expression failed on and that is left out.
type Failed struct {
	Offset  record.Offset
	Message string
}

// selecting is the part of a reader that applies a filter: it reads chunks as they are stored,
// examines each record, and returns chunks of selected records. It works in turns, so that slow
// expressions never use more than their share of the processors.
type selecting struct {
	reader  *Reader
	filter  *filter.Filter
	turns   *Turns
	at      record.Offset     // everything below was scanned
	records int64             // that may still be given
	bytes   int64             // of selected batches that may still be given
	given   bool              // a batch was given: bytes bounds the others only
	query   *segment.KeyQuery // of the filter; nil: it selects by no key
	skipped func(segments int)
	ending  error // the error after the newest chunk; nil: there is more to read
}

func newSelecting(r *Reader, q *Request, of Source, first record.Offset) *selecting {
	s := &selecting{
		reader: r, filter: of.Filter, turns: of.Turns, at: first, records: math.MaxInt64, bytes: math.MaxInt64,
		query: segment.NewKeyQuery(of.Filter.Keys(), of.Filter.Prefixes()), skipped: of.Skipped,
	}
	if q.MaxRecords > 0 {
		s.records = q.MaxRecords
	}
	if q.MaxBytes > 0 {
		s.bytes = q.MaxBytes
	}
	return s
}

// next implements Reader.Next with a filter. A chunk may have no records: it then only reports the
// position of the reader.
func (s *selecting) next(ctx context.Context) (Chunk, error) {
	first, looked, begun := s.at, 0, time.Now()
	for s.ending == nil {
		if looked >= progressBytes || s.at > first && (ctx.Err() != nil || time.Since(begun) >= progressTime) {
			return s.progress(first), nil
		}
		if s.skip(ctx) {
			continue
		}
		c, err := s.within(ctx, s.at > first, begun)
		if err != nil {
			if s.at > first {
				return s.progress(first), nil // the error comes again
			}
			return Chunk{}, err
		}
		looked += c.Bytes
		p := pass{selecting: s, chunk: &c}
		limited, cancel := limit(ctx, s.at > first, begun)
		if err := p.run(limited); err != nil {
			if p.divided = true; limited.Err() == nil {
				s.ending = err // after what was selected before
			}
		}
		cancel()
		if p.divided {
			s.rewind()
		}
		if len(p.selection.Bytes) == 0 && len(p.failed) == 0 {
			c.Release()
			switch {
			case ctx.Err() == nil:
				continue
			case s.at > first:
				return s.progress(first), nil
			}
			return Chunk{}, ctx.Err()
		}
		out := s.progress(first)
		out.Count, out.Bytes, out.Failed = p.count, len(p.selection.Bytes), p.failed
		if out.Bytes > 0 {
			out.Parts = [][]byte{p.selection.Bytes}
		}
		// The selection replaces the chunk in the node's memory. If the chunk was compressed, the
		// selection may be larger.
		out.Release = c.Release
		if err := s.count(&out, out.Bytes-c.Bytes); err != nil {
			c.Release()
			return Chunk{}, err
		}
		return out, nil
	}
	if s.at > first {
		return s.progress(first), nil
	}
	return Chunk{}, s.ending
}

// count acquires memory for the bytes by which a selection exceeds its chunk.
func (s *selecting) count(out *Chunk, bytes int) error {
	f := s.reader.slow
	if f == nil || bytes <= 0 {
		return nil
	}
	release, ok := f.grow(int64(bytes))
	if !ok {
		s.ending = record.Refuse(record.Busy, "no memory for %d bytes of selected records at offset %d; continue the read later", out.Bytes, out.First)
		return s.ending
	}
	whole := out.Release
	out.Release = func() {
		whole()
		release()
	}
	return nil
}

// skip moves past segments that have none of the keys, and reports whether it moved. Its reads are
// paced as reads of old records are.
func (s *selecting) skip(ctx context.Context) bool {
	if s.query == nil {
		return false
	}
	before, r := s.query.Read, s.reader
	moved := s.skipSome(ctx)
	if read := s.query.Read - before; read > 0 && r.closed != nil && r.log.Appending() {
		_ = r.pacer.hold(ctx, read) // that ctx has ended is seen next
	}
	return moved
}

func (s *selecting) skipSome(ctx context.Context) bool {
	r := s.reader
	if s.at != r.next { // or a chunk that was read waits to be scanned
		return false
	}
	if r.slow != nil {
		r.slow.mu.Lock()
		defer r.slow.mu.Unlock()
	}
	to, segments := r.reader.Skip(ctx, s.query, r.until, r.request.UntilTime)
	if segments > 0 {
		r.next, s.at = to, to
		s.skipped(segments)
	}
	return segments > 0
}

// within returns the next stored chunk.
func (s *selecting) within(ctx context.Context, pending bool, begun time.Time) (Chunk, error) {
	limited, cancel := limit(ctx, pending, begun)
	defer cancel()
	c, err := s.reader.nextWhole(limited)
	if errors.Is(err, io.EOF) {
		s.ending = err
	}
	return c, err
}

// limit bounds a wait for a chunk or a turn: if the reader has made progress, the wait ends when it
// must be reported.
func limit(ctx context.Context, pending bool, begun time.Time) (context.Context, context.CancelFunc) {
	if !pending {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, begun.Add(progressTime))
}

// progress is a chunk without records of [first, at).
func (s *selecting) progress(first record.Offset) Chunk {
	r := s.reader
	c := Chunk{First: first, Next: s.at, Selected: true, Release: func() {}}
	c.Age = r.log.Age() // read before the end, so that the age can only be too high
	c.Start, c.End, _ = r.tail.Bounds()
	return c
}

// rewind moves the reader back to at.
func (s *selecting) rewind() {
	r := s.reader
	if r.slow != nil {
		r.slow.mu.Lock()
		defer r.slow.mu.Unlock()
		r.drop()
	}
	r.next, r.done = s.at, false
	r.reader.Seek(s.at)
}

// pass scans the records of one chunk.
type pass struct {
	*selecting
	chunk     *Chunk
	begun     time.Time // it has a turn, and its first batch is inflated; zero: not yet
	turn      turn
	looked    int // records
	selection record.Selection
	count     int
	failed    []Failed
	divided   bool // something of the chunk is left for later
	// Bytes that the newest batch was inflated into: counted in the node's memory for reads, or
	// not, as long as the pass has its turn.
	counted, uncounted int64
}

// run scans the chunk until it ends or the selection is full. at is then the end of the scanned
// records.
func (p *pass) run(ctx context.Context) error {
	defer p.turn.end()
	if p.filter.Costly() {
		if err := p.turn.begin(ctx, p.turns); err != nil {
			return err
		}
	}
	for _, run := range p.chunk.Parts {
		for len(run) > 0 {
			b, rest, err := record.Split(run)
			if err != nil {
				return record.Refuse(record.Corrupt, "stored batch at offset %d: %v", p.at, err)
			}
			run = rest
			if err := p.batch(ctx, b); err != nil {
				return err
			}
			if p.divided || p.ending != nil {
				return nil
			}
		}
	}
	p.at = p.chunk.First + record.Offset(p.chunk.Count)
	return nil
}

// batch scans the records of a batch.
func (p *pass) batch(ctx context.Context, b record.Batch) error {
	var w record.Walk
	if b.Compression() != record.None {
		memory := inflated.Get().(*[]byte)
		defer inflated.Put(memory)
		defer p.releaseInflated()
		switch err := p.inflate(ctx, &w, b, memory); {
		case errors.Is(err, errOwes):
			p.divided = true
			return nil
		case err != nil:
			return err
		}
	} else if _, err := w.Begin(b, nil, 0); err != nil {
		return err
	}
	if p.begun.IsZero() {
		p.begun = time.Now()
	}
	before, count, from, costly := len(p.selection.Bytes), p.count, p.at, p.filter.Costly()
	p.selection.Begin(b)
	end := p.chunk.First + record.Offset(p.chunk.Count)
	for !p.divided && p.ending == nil && w.Next() {
		o := w.Offset()
		if o >= end {
			break
		}
		if o < p.at {
			continue
		}
		if p.looked++; p.turn.held && (costly || p.looked&7 == 0) {
			if p.yield(ctx); p.divided {
				break
			}
		}
		keep, err := p.filter.Keep(&w)
		switch {
		case w.Err() != nil:
			continue
		case err != nil:
			p.fail(o, err)
			continue
		case keep && !p.take(&w, o, before):
			continue
		}
		p.at = o + 1
	}
	if w.Err() != nil {
		p.ending = w.Err()
	}
	if p.count-count == b.Count() && p.filter.Whole() {
		p.selection.Drop()
		p.selection.Bytes = append(p.selection.Bytes, b...) // as it is stored, compressed if it is
	} else {
		p.selection.End()
	}
	p.bound(before, count, from)
	return nil
}

// take adds a selected record to its batch, which begins at from in the selection. It returns false
// if the chunk has no room for the record.
func (p *pass) take(w *record.Walk, o record.Offset, from int) bool {
	most := selectedBytes
	if from > 0 {
		most = p.reader.slow.most(selectedBytes) // little is one batch, or several that are as little
	}
	if p.count > 0 && len(p.selection.Bytes)+w.Size() > most {
		p.divided = true
		return false
	}
	p.filter.Add(&p.selection, w)
	p.count++
	if p.records--; p.records == 0 {
		p.ending = io.EOF
	}
	return true
}

// fail notes a record that the expression fails on, or ends the read there.
func (p *pass) fail(o record.Offset, err error) {
	switch {
	case !p.filter.SkipFailed():
		p.at, p.ending = o, filter.Failed(o, err)
	case len(p.failed) == maxFailed:
		p.divided = true
	default:
		p.failed = append(p.failed, Failed{o, err.Error()})
		p.at = o + 1
	}
}

// bound removes the newest batch, which begins at before, if it exceeds the number of bytes that
// the reader requested.
func (p *pass) bound(before, count int, from record.Offset) {
	size := int64(len(p.selection.Bytes) - before)
	if size > p.bytes && p.given {
		p.selection.Bytes = p.selection.Bytes[:before]
		p.count, p.at, p.divided, p.ending = count, from, false, io.EOF
		p.failed = slices.DeleteFunc(p.failed, func(f Failed) bool { return f.Offset >= from })
		return
	}
	if size > 0 {
		p.given = true
		p.bytes -= min(size, p.bytes)
	}
}

// yield passes the turn on. It divides the chunk if the pass has taken long, or if there is no
// memory to keep while waiting. A pass advances at before it divides, since otherwise the next pass
// would not advance either.
func (p *pass) yield(ctx context.Context) {
	if !p.turn.over() {
		return
	}
	if !p.countInflated() {
		p.divided = p.at > p.chunk.First
		return
	}
	p.turn.end()
	runtime.Gosched()
	long := time.Since(p.begun) >= progressTime && p.at > p.chunk.First
	p.divided = long || p.turn.begin(ctx, p.turns) != nil
}

// inflated is memory for batches of usual size.
var inflated = sync.Pool{New: func() any { return new([]byte) }}

// countInflated counts what was inflated in the node's memory. It reports false if there is none.
func (p *pass) countInflated() bool {
	if p.uncounted == 0 || p.reader.slow == nil {
		return true
	}
	if !p.reader.slow.reads.TryAcquire(p.uncounted) {
		return false
	}
	p.counted, p.uncounted = p.uncounted, 0
	return true
}

// releaseInflated gives back what was counted.
func (p *pass) releaseInflated() {
	if p.counted > 0 {
		p.reader.slow.reads.Release(p.counted)
	}
	p.counted, p.uncounted = 0, 0
}

// inflate begins a walk over a compressed batch, in a turn. One that inflates to a lot
// counts against the node's memory until release, others only while they wait for a turn. The error may be errOwes.
func (p *pass) inflate(ctx context.Context, w *record.Walk, b record.Batch, memory *[]byte) error {
	if !p.turn.held {
		if err := p.turn.begin(ctx, p.turns); err != nil {
			return err
		}
	}
	f := p.reader.slow
	if f == nil {
		_, err := w.Begin(b, nil, record.MaxInflatedBytes)
		return err
	}
	counted, grown, err := f.inflateTo(f.payments.most(b), w, b, *memory)
	switch {
	case counted > 0:
		p.counted = counted
	case err == nil:
		*memory = grown[:0]
		p.uncounted = int64(cap(grown))
	}
	return err
}
