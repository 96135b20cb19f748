package store

import (
	"fmt"
	"io"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// Walker reads the frames of one segment in file order, those behind damage
// too. It goes on where scan stops: at the next position at which a frame
// header of this segment is valid.
type Walker struct {
	Scanner
	First uint64 // no entry of this segment has a lower index

	// end is where the frames of a segment end that is not the newest, if it
	// is known; 0: as far as a frame vouches for what lies in front of it. From
	// footer on, if it is not 0, there are no entries.
	End, Footer int64
	// Watermark is the position in front of which everything was durable, as the
	// durable watermark says; 0: it does not cover this segment.
	Watermark int64
	// salvaged: the salt is known, the rest of the segment's header is not.
	Salvaged bool
	// tell is called now and then with the bytes read so far. Its error ends
	// the walk.
	Tell func(position int64) error
}

// visitor hears what a walker meets, in file order.
type visitor interface {
	// whole gets a valid frame.
	Whole(h *format.FrameHeader, position int64, payload []byte)
	// broken gets a frame whose header is valid and whose payload is not.
	Broken(h *format.FrameHeader, position int64, reason error)
	// lost gets bytes in which frames were, nobody knows which.
	Lost(from, to int64, reason error)
}

// walk returns the position behind the last frame, and whether torn frames lie
// there.
func (w *Walker) Walk(v visitor) (end int64, torn bool, err error) {
	framed, err := w.vouchedFor()
	if err != nil {
		return 0, false, err
	}
	vouched := max(framed, w.Watermark)
	position, next := int64(format.HeaderSize), w.First
	before, chained := w.Header.Link(), !w.Salvaged
	sure := true // nothing was lost so far: next is known
	told := position
	for position < w.limit() {
		if w.Tell != nil && position-told >= ScanChunk {
			if err := w.Tell(position); err != nil {
				return 0, false, err
			}
			told = position
		}
		h, payload, bad, err := w.Look(position)
		if err != nil {
			return 0, false, err
		}
		known := bad == nil || h.Kind != 0
		if known {
			if reason := w.fits(&h, before, chained, next, sure); reason != nil {
				bad, known = reason, false
			}
		}
		if bad != nil && w.End == 0 && position >= vouched {
			w.Position = position
			err := w.lookBehind()
			return position, w.torn, err
		}
		if known {
			if bad == nil {
				v.Whole(&h, position, payload)
			} else {
				v.Broken(&h, position, bad)
			}
			if h.Kind != format.FooterFrame {
				next, sure = h.Index+1, true
			}
			before, chained = h.HeaderCRC, true
			position += h.Size()
			continue
		}
		to, err := w.goesOn(position + format.FrameAlignment)
		if err != nil {
			return 0, false, err
		}
		if w.End == 0 && position >= framed && to == w.limit() {
			return position, false, nil // nothing follows: the log ends here, too early
		}
		v.Lost(position, to, bad)
		position, chained, sure = to, false, false
	}
	return position, false, nil
}

// limit is where to stop at the latest.
func (w *Walker) limit() int64 {
	if w.End > 0 {
		return w.End
	}
	return w.Size
}

// vouchedFor is the position in front of which everything was durable once, as
// far as the frames of a segment tell whose end is not known.
func (w *Walker) vouchedFor() (int64, error) {
	if w.End > 0 {
		return w.End, nil
	}
	vouched, at := int64(format.HeaderSize), int64(format.HeaderSize)
	for {
		var err error
		if at, err = w.NextFrame(at); err != nil || at >= w.Size {
			return vouched, err
		}
		b, err := w.Bytes(at, format.FrameHeaderSize)
		if err != nil {
			return 0, err
		}
		h, err := format.ParseFrameHeader(b, at, w.Header.Salt)
		if err != nil {
			return 0, err
		}
		vouched = max(vouched, h.Synced)
		at += format.FrameAlignment
	}
}

// look reads the frame at position. A kind of 0 means that its header is not
// valid, bad with a kind that its payload is not.
func (w *Walker) Look(position int64) (h format.FrameHeader, payload []byte, bad, err error) {
	b, err := w.Bytes(position, format.FrameHeaderSize)
	if err == io.EOF {
		return h, nil, fmt.Errorf("the file ends at %d, within a frame header", w.Size), nil
	}
	if err != nil {
		return h, nil, nil, err
	}
	if h, bad = format.ParseFrameHeader(b, position, w.Header.Salt); bad != nil {
		return format.FrameHeader{}, nil, bad, nil
	}
	if position+h.Size() > w.limit() && w.End > 0 {
		return format.FrameHeader{}, nil, fmt.Errorf("frame of %d bytes runs beyond the end of the segment", h.Length), nil
	}
	b, err = w.Bytes(position, h.Size())
	if err == io.EOF {
		return h, nil, fmt.Errorf("the file ends at %d, within a frame of %d bytes", w.Size, h.Length), nil
	}
	if err != nil {
		return h, nil, nil, err
	}
	payload = b[format.FrameHeaderSize:][:h.Length]
	return h, payload, h.CheckPayload(payload), nil
}

// fits tells why a frame with a valid header cannot be there.
func (w *Walker) fits(h *format.FrameHeader, before uint32, chained bool, next uint64, sure bool) error {
	if chained && h.Before != before {
		return fmt.Errorf("frame follows one with CRC %08x, not %08x", h.Before, before)
	}
	switch {
	case h.Kind == format.EntryFrame && (h.Index < w.First || sure && h.Index > next):
		return fmt.Errorf("entry %d does not follow [%d, %d)", h.Index, w.First, next)
	case h.Kind == format.EntryFrame || h.Kind == format.FooterFrame:
		return nil
	case h.Index+1 < w.First || sure && h.Index+1 > next:
		return fmt.Errorf("hard state behind entry %d in a log of [%d, %d)", h.Index, w.First, next)
	case h.Length != format.HardStateSize:
		return fmt.Errorf("hard state of %d bytes", h.Length)
	}
	return nil
}

// nextFrame returns the first position from at on where a frame header is
// valid; the limit if there is none.
func (w *Walker) NextFrame(at int64) (int64, error) {
	for ; at+format.FrameHeaderSize <= min(w.Size, w.limit()); at += format.FrameAlignment {
		b, err := w.Bytes(at, format.FrameHeaderSize)
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		if format.FrameSalt(b) != w.Header.Salt {
			continue
		}
		if _, err := format.ParseFrameHeader(b, at, w.Header.Salt); err == nil {
			return at, nil
		}
	}
	return w.limit(), nil
}

// goesOn returns the first position from at on of a frame that can be one of
// this segment.
func (w *Walker) goesOn(at int64) (int64, error) {
	for ; ; at += format.FrameAlignment {
		var err error
		if at, err = w.NextFrame(at); err != nil || at >= w.limit() {
			return at, err
		}
		h, _, _, err := w.Look(at)
		if err != nil || h.Kind != 0 && w.fits(&h, 0, false, 0, false) == nil {
			return at, err
		}
	}
}

// corruptFrame is the error for the frame at position, where the entry index
// should be. What is damaged reaches up to the next frame whose header is
// valid, if there is one in front of limit, and not to the entry reach.
func corruptFrame(file vfs.File, path string, salt uint64, position, limit int64, index, reach uint64, reason error) *segment.CorruptError {
	e := &segment.CorruptError{
		File: path, Position: position, FirstIndex: index, LastIndex: max(reach, index+1) - 1, Detail: reason.Error(),
	}
	w := Walker{Scanner: Scanner{File: file, Path: path, Header: &format.Header{Salt: salt}, Size: limit, Holes: true}}
	if h, _, _, err := w.Look(position); err == nil && h.Kind != 0 {
		// Its header says what it is. An entry with another index shows that
		// those between were lost before.
		switch {
		case h.Kind != format.EntryFrame:
			e.FirstIndex, e.LastIndex = 0, 0
		case h.Index == index:
			e.LastIndex = index
		case h.Index > index:
			e.LastIndex = h.Index - 1
		}
		return e
	}
	for at := position + format.FrameAlignment; ; at += format.FrameAlignment {
		var err error
		if at, err = w.NextFrame(at); err != nil || at >= limit {
			return e // a failed read tells no more
		}
		if h, _, _, err := w.Look(at); err == nil && h.Kind == format.EntryFrame {
			if h.Index > index {
				e.LastIndex = min(e.LastIndex, h.Index-1)
			}
			return e
		}
	}
}
