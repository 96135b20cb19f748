package reading

import (
	"context"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"strandline.dev/internal/filter"
	"strandline.dev/internal/record"
)

const (
	// A chunk is given at the latest after so many bytes of stored batches were looked at, or
	// so much time, even if nothing of them was selected.
	progressBytes = 4 << 20
	progressTime  = 500 * time.Millisecond
	// selectedBytes is where a chunk of selected records ends. Only a batch that inflates to
	// more is divided.
	selectedBytes = 1 << 20
	// maxFailed is how many failed records a chunk names.
	maxFailed = 100
	// failedText bounds what is said of one of them.
	failedText = 300
	// inflatedBytes is what a batch may inflate to in a reader's turn without counting. More
	// counts against the node's memory for reads, as inflateRoom.
	inflatedBytes = 4 << 20
	inflateRoom   = record.MaxInflatedBytes * 9 / 4
)

// Failed is a record that an expression failed on and that is left out.
type Failed struct {
	Offset  record.Offset
	Message string
}

// selecting is the work of a reader with a filter: it takes chunks as they are stored, looks
// at each record, and gives chunks of what was selected. It works in turns, so that slow
// expressions never take more than their part of the machine.
type selecting struct {
	reader  *Reader
	filter  *filter.Filter
	turns   *Turns
	at      record.Offset // everything below was looked at
	records int64         // that may still be given
	bytes   int64         // of selected batches that may still be given
	given   bool          // a batch was given: bytes bounds the others only
	ending  error         // what comes after the newest chunk; nil: more
}

func newSelecting(r *Reader, q *Request, f *filter.Filter, turns *Turns, first record.Offset) *selecting {
	s := &selecting{reader: r, filter: f, turns: turns, at: first, records: math.MaxInt64, bytes: math.MaxInt64}
	if q.MaxRecords > 0 {
		s.records = q.MaxRecords
	}
	if q.MaxBytes > 0 {
		s.bytes = q.MaxBytes
	}
	return s
}

// next is Reader.Next with a filter. Its chunks may have no records: these show how far the
// reader has come.
func (s *selecting) next(ctx context.Context) (Chunk, error) {
	first, looked, begun := s.at, 0, time.Now()
	for s.ending == nil {
		if looked >= progressBytes || s.at > first && time.Since(begun) >= progressTime {
			return s.progress(first), nil
		}
		c, err := s.within(ctx, s.at > first, begun)
		if err != nil {
			if s.at > first && (errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
				return s.progress(first), nil
			}
			return Chunk{}, err
		}
		looked += c.Bytes
		p := pass{selecting: s, chunk: &c}
		if err := p.run(ctx); err != nil {
			if p.divided = true; ctx.Err() == nil {
				s.ending = err // after what was selected before
			}
		}
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
		out.Release = c.Release // what was selected takes the place of the chunk in the node's memory
		return out, nil
	}
	if s.at > first {
		return s.progress(first), nil
	}
	return Chunk{}, s.ending
}

// within takes the next stored chunk, and does not wait for it longer than progress may
// be put off if there is some.
func (s *selecting) within(ctx context.Context, pending bool, begun time.Time) (Chunk, error) {
	if pending {
		limited, cancel := context.WithDeadline(ctx, begun.Add(progressTime))
		defer cancel()
		ctx = limited
	}
	c, err := s.reader.nextWhole(ctx)
	if errors.Is(err, io.EOF) {
		s.ending = err
	}
	return c, err
}

// progress is a chunk without records of [first, at).
func (s *selecting) progress(first record.Offset) Chunk {
	r := s.reader
	c := Chunk{First: first, Next: s.at, Selected: true, Release: func() {}}
	c.Age = r.log.Age() // before the end is looked at: it may only be reported too old
	c.Start, c.End, _ = r.tail.Bounds()
	return c
}

// rewind has the reader read again from at.
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

// pass looks at the records of one chunk.
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
}

// run looks at all, or at as much as a chunk of selected records takes. at is then behind
// what was looked at.
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

// batch looks at the records of a batch.
func (p *pass) batch(ctx context.Context, b record.Batch) error {
	var w record.Walk
	if b.Compression() != record.None {
		memory := inflated.Get().(*[]byte)
		defer inflated.Put(memory)
		release, err := p.inflate(ctx, &w, b, memory)
		if err != nil {
			return err
		}
		defer release()
	} else if _, err := w.Begin(b, nil, 0); err != nil {
		return err
	}
	if p.begun.IsZero() {
		p.begun = time.Now()
	}
	before, count, from := len(p.selection.Bytes), p.count, p.at
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
		if p.looked++; p.turn.held && p.looked&7 == 0 {
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
		case keep && !p.take(&w, o):
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

// take adds a record that is wanted. It reports false if the chunk has no room for it.
func (p *pass) take(w *record.Walk, o record.Offset) bool {
	if p.count > 0 && len(p.selection.Bytes)+w.Size() > selectedBytes {
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
		text := err.Error()
		p.failed = append(p.failed, Failed{o, strings.ToValidUTF8(text[:min(len(text), failedText)], "\uFFFD")})
		p.at = o + 1
	}
}

// bound takes the newest batch back, which begins at before, if it exceeds the bytes that
// the reader wants.
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

// yield lets others have the turn, and divides the chunk if it has taken long. Each pass
// moves at before it divides: the next one would be no faster.
func (p *pass) yield(ctx context.Context) {
	if time.Since(p.turn.begun) < turnTime {
		return
	}
	p.turn.end()
	runtime.Gosched()
	long := time.Since(p.begun) >= progressTime && p.at > p.chunk.First
	p.divided = long || p.turn.begin(ctx, p.turns) != nil
}

// inflated is memory for batches of usual size.
var inflated = sync.Pool{New: func() any { return new([]byte) }}

// inflate begins a walk over a compressed batch, in a turn. One that inflates to a lot
// counts against the node's memory until release.
func (p *pass) inflate(ctx context.Context, w *record.Walk, b record.Batch, memory *[]byte) (release func(), err error) {
	if !p.turn.held {
		if err := p.turn.begin(ctx, p.turns); err != nil {
			return nil, err
		}
	}
	grown, err := w.Begin(b, *memory, inflatedBytes)
	if err == nil {
		*memory = grown[:0]
	}
	if !errors.Is(err, record.ErrInflatesBeyond) {
		return func() {}, err
	}
	release = func() {}
	if p.reader.slow != nil {
		reads := p.reader.slow.keeping
		room := min(int64(inflateRoom), reads.Size()/2)
		if !reads.TryAcquire(room) {
			return nil, record.Refuse(record.Busy, "no memory to inflate a large batch at offset %d; read on in a moment", p.at)
		}
		release = func() { reads.Release(room) }
	}
	if _, err = w.Begin(b, nil, record.MaxInflatedBytes); err != nil {
		release()
		return nil, err
	}
	return release, nil
}
