package repair

import (
	"fmt"

	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
)

// walk reads the frames of one segment in file order, including those behind damage. Where a scan
// stops, it continues at the next position with a valid frame header of this segment.
type walk struct {
	*format.Walker
	link     uint32 // link of the first frame, see Header.Link
	first    uint64 // no entry of this segment has a lower index
	forged   uint64 // this entry is not what was appended, though its checksums match; 0: none
	salvaged bool   // the salt is known, the rest of the segment's header is not

	// footer, if not 0, is the position from which on there are no entries.
	footer int64
	// watermark is the position in front of which everything was durable according to the durable
	// watermark; 0: it does not cover this segment.
	watermark int64
	// progress is called from time to time with the bytes read so far. Its error ends the walk.
	progress func(position int64) error
}

// frames passes what it finds to v, in file order. It returns the position behind the last frame
// and reports whether torn frames lie there.
func (w *walk) frames(v *visit) (end int64, torn bool, err error) {
	framed, err := w.vouchedFor()
	if err != nil {
		return 0, false, err
	}
	vouched := max(framed, w.watermark)
	next, before := w.first, w.link
	chained, sure := !w.salvaged, true // sure: no frame was lost so far, so next is known
	reported := int64(format.HeaderSize)
	for w.MoveTo(format.HeaderSize); w.Position < w.End; {
		if w.Position-reported >= store.PieceBytes {
			if err := w.progress(w.Position); err != nil {
				return 0, false, err
			}
			reported = w.Position
		}
		var payload []byte
		known := w.Next()
		h, position := &w.Frame, w.Position
		if position >= w.End {
			break
		}
		if known {
			payload, _ = w.Payload()
			if reason := w.fits(before, chained, next, sure); reason != nil {
				w.Bad, known = reason, false
			}
		}
		if w.Err != nil {
			return 0, false, w.Err
		}
		if w.Bad != nil && w.EndUnknown && position >= vouched {
			torn, _, err := w.LookBehind()
			return position, torn, err
		}
		if known && w.Bad == nil {
			// The checksums match the forged bytes, so they cannot identify the original entry.
			if known = h.Kind != format.EntryFrame || h.Index != w.forged; !known {
				w.Reject("the entry is not what was appended")
			}
		}
		if known {
			if w.Bad == nil {
				v.whole(h, position, payload)
			} else {
				v.broken(h, position, w.Bad)
				w.Pass()
			}
			if h.Kind != format.FooterFrame {
				next, sure = h.Index+1, true
			}
			before, chained = h.HeaderCRC, true
			continue
		}
		bad := w.Bad
		to, err := w.resume(position + format.FrameAlignment)
		if err != nil {
			return 0, false, err
		}
		if w.EndUnknown && position >= framed && to == w.End {
			return position, false, nil // no frame follows: the log ends here, too early
		}
		v.lost(position, to, bad)
		chained, sure = false, false
	}
	return w.Position, false, nil
}

// vouchedFor returns the position in front of which everything was durable at some time. In a
// segment whose end is not known, its frames show that position.
func (w *walk) vouchedFor() (int64, error) {
	if !w.EndUnknown {
		return w.End, nil
	}
	vouched := int64(format.HeaderSize)
	for at := vouched; w.Search(at); at = w.Position + format.FrameAlignment {
		vouched = max(vouched, w.Frame.Synced)
	}
	return vouched, w.Err
}

// fits returns an error if a frame with a valid header cannot be at this place.
func (w *walk) fits(before uint32, chained bool, next uint64, sure bool) error {
	h := &w.Frame
	if chained && h.Before != before {
		return fmt.Errorf("the frame follows one with CRC %08x, not %08x", h.Before, before)
	}
	switch {
	case h.Kind == format.EntryFrame && (h.Index < w.first || sure && h.Index > next):
		return fmt.Errorf("entry %d does not follow [%d, %d)", h.Index, w.first, next)
	case h.Kind == format.EntryFrame || h.Kind == format.FooterFrame:
		return nil
	case h.Index+1 < w.first || sure && h.Index+1 > next:
		return fmt.Errorf("hard state after entry %d in a log of [%d, %d)", h.Index, w.first, next)
	case h.Length != format.HardStateSize:
		return fmt.Errorf("hard state of %d bytes", h.Length)
	}
	return nil
}

// resume moves to the first position from at on with a frame that can belong to this segment, and
// returns it.
func (w *walk) resume(at int64) (int64, error) {
	for w.Search(at) && w.fits(0, false, 0, false) != nil {
		at = w.Position + format.FrameAlignment
	}
	position, err := w.Position, w.Err
	w.MoveTo(position)
	return position, err
}
