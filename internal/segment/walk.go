package segment

import (
	"fmt"
	"io"
)

// walker reads the frames of one segment in file order, those behind damage
// too. It goes on where scan stops: at the next position at which a frame
// header of this segment is valid.
type walker struct {
	scanner
	first uint64 // no entry of this segment has a lower index

	// end is where the frames of a segment end that is not the newest, if it
	// is known; 0: as far as a frame vouches for what lies in front of it. From
	// footer on, if it is not 0, there are no entries.
	end, footer int64
	// witnessed is the position in front of which everything was durable, as the
	// witness tells; 0: it does not.
	witnessed int64
	// salvaged: the salt is known, the rest of the segment's header is not.
	salvaged bool
	// tell is called now and then with the bytes read so far. Its error ends
	// the walk.
	tell func(position int64) error
}

// visitor hears what a walker meets, in file order.
type visitor interface {
	// whole is told of a valid frame.
	whole(h *frameHeader, position int64, payload []byte)
	// broken is told of a frame whose header is valid and whose payload is not.
	broken(h *frameHeader, position int64, reason error)
	// lost is told of bytes in which frames were, nobody knows which.
	lost(from, to int64, reason error)
}

// walk returns the position behind the last frame, and whether torn frames lie
// there.
func (w *walker) walk(v visitor) (end int64, torn bool, err error) {
	framed, err := w.vouchedFor()
	if err != nil {
		return 0, false, err
	}
	vouched := max(framed, w.witnessed)
	position, next := int64(headerSize), w.first
	before, chained := w.header.link(), !w.salvaged
	sure := true // nothing was lost so far: next is known
	told := position
	for position < w.limit() {
		if w.tell != nil && position-told >= scanChunk {
			if err := w.tell(position); err != nil {
				return 0, false, err
			}
			told = position
		}
		h, payload, bad, err := w.look(position)
		if err != nil {
			return 0, false, err
		}
		known := bad == nil || h.kind != 0
		if known {
			if reason := w.fits(&h, before, chained, next, sure); reason != nil {
				bad, known = reason, false
			}
		}
		if bad != nil && w.end == 0 && position >= vouched {
			w.position = position
			err := w.lookBehind()
			return position, w.torn, err
		}
		if known {
			if bad == nil {
				v.whole(&h, position, payload)
			} else {
				v.broken(&h, position, bad)
			}
			if h.kind != footerFrame {
				next, sure = h.index+1, true
			}
			before, chained = h.headerCRC, true
			position += h.size()
			continue
		}
		to, err := w.goesOn(position + frameAlignment)
		if err != nil {
			return 0, false, err
		}
		if w.end == 0 && position >= framed && to == w.limit() {
			return position, false, nil // nothing follows: the log ends here, too early
		}
		v.lost(position, to, bad)
		position, chained, sure = to, false, false
	}
	return position, false, nil
}

// limit is where to stop at the latest.
func (w *walker) limit() int64 {
	if w.end > 0 {
		return w.end
	}
	return w.size
}

// vouchedFor is the position in front of which everything was durable once, as
// far as the frames of a segment tell whose end is not known.
func (w *walker) vouchedFor() (int64, error) {
	if w.end > 0 {
		return w.end, nil
	}
	vouched, at := int64(headerSize), int64(headerSize)
	for {
		var err error
		if at, err = w.nextFrame(at); err != nil || at >= w.size {
			return vouched, err
		}
		b, err := w.bytes(at, frameHeaderSize)
		if err != nil {
			return 0, err
		}
		h, err := parseFrameHeader(b, at, w.header.salt)
		if err != nil {
			return 0, err
		}
		vouched = max(vouched, h.synced)
		at += frameAlignment
	}
}

// look reads the frame at position. A kind of 0 means that its header is not
// valid, bad with a kind that its payload is not.
func (w *walker) look(position int64) (h frameHeader, payload []byte, bad, err error) {
	b, err := w.bytes(position, frameHeaderSize)
	if err == io.EOF {
		return h, nil, fmt.Errorf("the file ends at %d, within a frame header", w.size), nil
	}
	if err != nil {
		return h, nil, nil, err
	}
	if h, bad = parseFrameHeader(b, position, w.header.salt); bad != nil {
		return frameHeader{}, nil, bad, nil
	}
	if position+h.size() > w.limit() && w.end > 0 {
		return frameHeader{}, nil, fmt.Errorf("frame of %d bytes runs beyond the end of the segment", h.length), nil
	}
	b, err = w.bytes(position, h.size())
	if err == io.EOF {
		return h, nil, fmt.Errorf("the file ends at %d, within a frame of %d bytes", w.size, h.length), nil
	}
	if err != nil {
		return h, nil, nil, err
	}
	payload = b[frameHeaderSize:][:h.length]
	return h, payload, h.checkPayload(payload), nil
}

// fits tells why a frame with a valid header cannot be there.
func (w *walker) fits(h *frameHeader, before uint32, chained bool, next uint64, sure bool) error {
	if chained && h.before != before {
		return fmt.Errorf("frame follows one with CRC %08x, not %08x", h.before, before)
	}
	switch {
	case h.kind == entryFrame && (h.index < w.first || sure && h.index > next):
		return fmt.Errorf("entry %d does not follow [%d, %d)", h.index, w.first, next)
	case h.kind == entryFrame || h.kind == footerFrame:
		return nil
	case h.index+1 < w.first || sure && h.index+1 > next:
		return fmt.Errorf("hard state behind entry %d in a log of [%d, %d)", h.index, w.first, next)
	case h.length != hardStateSize:
		return fmt.Errorf("hard state of %d bytes", h.length)
	}
	return nil
}

// nextFrame returns the first position from at on where a frame header is
// valid; the limit if there is none.
func (w *walker) nextFrame(at int64) (int64, error) {
	for ; at+frameHeaderSize <= min(w.size, w.limit()); at += frameAlignment {
		b, err := w.bytes(at, frameHeaderSize)
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		if frameSalt(b) != w.header.salt {
			continue
		}
		if _, err := parseFrameHeader(b, at, w.header.salt); err == nil {
			return at, nil
		}
	}
	return w.limit(), nil
}

// goesOn returns the first position from at on of a frame that can be one of
// this segment.
func (w *walker) goesOn(at int64) (int64, error) {
	for ; ; at += frameAlignment {
		var err error
		if at, err = w.nextFrame(at); err != nil || at >= w.limit() {
			return at, err
		}
		h, _, _, err := w.look(at)
		if err != nil || h.kind != 0 && w.fits(&h, 0, false, 0, false) == nil {
			return at, err
		}
	}
}
