package replica

import (
	"errors"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Reader reads committed entries in order, from memory where it can and from
// segments where it must, one chunk ahead of its user. It belongs to one
// goroutine.
type Reader struct {
	replica *Replica
	next    record.Offset
	frames  []segment.Frame
	cursor  segment.Cursor
	// ahead brings the chunk at next while the user works on the one before;
	// nil when no read is under way.
	ahead chan chunk
}

type chunk struct {
	frames []segment.Frame
	err    error
}

// NewReader begins at an offset, which may lie at or beyond the end.
func (r *Replica) NewReader(from record.Offset) *Reader {
	return &Reader{replica: r, next: from}
}

// Next returns the entries that hold records from the reader's position up to
// until (exclusive), about maxBytes of them and at least one, and moves behind
// them. The first may begin before the position. No frames and no error: there
// is nothing to read now. The frames are valid until the next call; their
// payloads stay.
func (r *Reader) Next(until record.Offset, maxBytes int) (frames []segment.Frame, start, end record.Offset, err error) {
	start, end, err = r.replica.tail.Bounds()
	if err != nil {
		return nil, start, end, err
	}
	if r.next < start {
		return nil, start, end, trimmed(r.next, start)
	}
	until = min(until, end)
	if r.next >= until {
		return nil, start, end, nil
	}
	if frames, err = r.fetch(until, maxBytes); err != nil {
		return nil, start, end, r.refuse(err, start)
	}
	last := &frames[len(frames)-1]
	r.next = last.First + record.Offset(last.Count)
	if r.cursor != nil && r.next < end {
		r.readAhead(end, maxBytes)
	}
	return frames, start, end, nil
}

// Close waits for a read under way and lets go of the segment.
func (r *Reader) Close() {
	if r.ahead != nil {
		<-r.ahead
		r.ahead = nil
	}
	r.closeCursor()
}

func (r *Reader) fetch(until record.Offset, maxBytes int) ([]segment.Frame, error) {
	if r.ahead != nil {
		c := <-r.ahead
		r.ahead = nil
		return c.frames, c.err
	}
	frames, ok := r.replica.tail.read(r.frames[:0], r.next, until, maxBytes)
	if ok {
		r.closeCursor()
		r.frames = frames
		return frames, nil
	}
	if r.cursor == nil {
		cursor, err := r.replica.log.NewCursor(r.next)
		if err != nil {
			return nil, err
		}
		r.cursor = cursor
	}
	return r.readCursor(until, maxBytes)
}

// readCursor takes the next frames that hold records from the cursor.
func (r *Reader) readCursor(until record.Offset, maxBytes int) ([]segment.Frame, error) {
	for {
		frames, err := r.cursor.Next(until, maxBytes)
		if err != nil {
			return nil, err
		}
		if len(frames) == 0 {
			return nil, errShort
		}
		kept := frames[:0]
		for _, f := range frames {
			if f.Count > 0 && f.First+record.Offset(f.Count) > r.next {
				kept = append(kept, f)
			}
		}
		if len(kept) > 0 {
			return kept, nil
		}
	}
}

// errShort is a log that ends before its committed end.
var errShort = errors.New("the segments end before the committed end")

func (r *Reader) readAhead(until record.Offset, maxBytes int) {
	if _, ok := r.replica.tail.read(nil, r.next, r.next+1, 0); ok {
		return // what comes next is in memory
	}
	ahead := make(chan chunk, 1)
	r.ahead = ahead
	go func() {
		frames, err := r.readCursor(until, maxBytes)
		ahead <- chunk{frames, err}
	}()
}

func (r *Reader) closeCursor() {
	if r.cursor != nil {
		r.cursor.Close()
		r.cursor = nil
	}
}

func (r *Reader) refuse(err error, start record.Offset) error {
	var corrupt *segment.CorruptError
	switch {
	case errors.As(err, &corrupt):
		return record.Refuse(record.Corrupt, "the stored bytes at offset %d do not match their checksum: %v", r.next, err)
	case errors.Is(err, segment.ErrTrimmed):
		if now, _, gone := r.replica.tail.Bounds(); gone == nil && now > start {
			start = now
		}
		return trimmed(r.next, start)
	}
	return record.Refuse(record.StorageFailed, "read at offset %d: %v", r.next, err)
}

func trimmed(asked, start record.Offset) *record.Refusal {
	r := record.Refuse(record.OffsetTrimmed, "offset %d is trimmed; the log now starts at %d", asked, start)
	r.Start = start
	return r
}
