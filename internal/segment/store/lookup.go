package store

import (
	"errors"
	"fmt"
	"math"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// reader looks up and reads entries.
//
// A lookup finds the first entry that is not before a given index, offset, time or amount of
// payload. All of these increase along the log. The headers identify the segment, the points of
// its index the 64 KiB in it, and the frame headers in there the entry.
type reader struct{ *loader }

// find returns the place of the first entry for which before is false, or the place of the next
// entry to be written. before must hold for all entries up to some place and for none after. The
// position is 0 if the place is the start of another segment.
func (r *reader) find(before func(*format.Point) bool) (format.Point, error) {
	for {
		place, err := r.findIn(r.liveSegments(), before)
		if !errors.Is(err, segment.ErrTrimmed) {
			return place, err
		}
		// A segment was trimmed between the two steps; try again with the rest.
	}
}

func (r *reader) findIn(live []*Segment, before func(*format.Point) bool) (format.Point, error) {
	k, err := r.lastBefore(live, before)
	if err != nil {
		return format.Point{}, err
	}
	seg := live[k]
	if err := r.useSegment(seg); err != nil {
		return format.Point{}, err
	}
	place, err := r.findEntry(seg, before)
	err = errors.Join(err, r.release(seg))
	if err == nil && k+1 < len(live) && place.Index >= live[k+1].First {
		h, err := r.headerOf(live[k+1])
		if err != nil {
			return format.Point{}, err
		}
		return h.Point(), nil
	}
	return place, err
}

// lastBefore returns the number of the last segment of live for which before may hold for an
// entry, or 0 if there is none. It skips a segment with a damaged header, so that entries in
// others are still found.
func (r *reader) lastBefore(live []*Segment, before func(*format.Point) bool) (int, error) {
	found, end := 0, len(live) // before may hold in found, and does not in end
	for from := 0; from < end; {
		middle := from + (end-from)/2
		k, h, err := r.nextHeader(live[:end], middle)
		if err != nil {
			return 0, err
		}
		if h == nil {
			end = middle
			continue
		}
		if p := h.Point(); before(&p) {
			found, from = k, k+1
		} else {
			end = middle
		}
	}
	return found, nil
}

// nextHeader returns the first undamaged header from live[k] on and the number of its segment;
// nil if there is none.
func (r *reader) nextHeader(live []*Segment, k int) (int, *format.Header, error) {
	for ; k < len(live); k++ {
		h, err := r.headerOf(live[k])
		if err == nil || !damagedFile(err) {
			return k, h, err
		}
	}
	return k, nil, nil
}

// findEntry is like find within one segment in use.
func (r *reader) findEntry(seg *Segment, before func(*format.Point) bool) (format.Point, error) {
	r.mu.RLock()
	from, after, limit, ok := seg.index.Bracket(before)
	file, salt := seg.file, seg.header.Salt
	r.mu.RUnlock()
	if !ok {
		return after, nil
	}
	return seek(file, seg.Path, salt, from, after, limit, before)
}

// seek walks the frame headers from the point from up to limit. It returns the place of the first
// entry for which before is false, or after if there is none.
func seek(file vfs.File, path string, salt uint64, from, after format.Point, limit int64, before func(*format.Point) bool) (format.Point, error) {
	// Entries start less than PointDistance behind a point, so the first read contains their
	// headers. Other frames may lie behind a large last entry.
	ahead := int64(format.PointDistance + format.FrameHeaderSize)
	w := format.Walker{Salt: salt, End: limit, Read: func(position, least, most int64) ([]byte, error) {
		b := make([]byte, min(max(least, ahead), most))
		ahead = 0
		n, err := file.ReadAt(b, position)
		return b[:n], err
	}}
	place := from
	for w.MoveTo(from.Position); w.Next(); {
		h := &w.Frame
		if h.Kind != format.EntryFrame {
			continue
		}
		place.Position, place.Index, place.Offset = w.Position, h.Index, h.First
		place.Time = max(place.Time, h.Time)
		if !before(&place) {
			return place, nil
		}
		place.Index++
		place.Bytes += uint64(h.Length)
	}
	switch {
	case w.Err != nil:
		return format.Point{}, fmt.Errorf("read %s: %w", path, w.Err)
	case w.Bad != nil:
		return format.Point{}, corruptFrame(file, path, salt, w.Position, limit, place.Index, after.Index, w.Bad)
	}
	return after, nil
}

// Term returns the term of an entry. It reads the disk only for segments written before this
// process started.
func (r *reader) Term(i uint64) (uint64, error) {
	term, seg, next, err := r.term(i)
	if seg != nil {
		return r.loadTerm(seg, next, i)
	}
	return term, err
}

func (r *reader) TermInMemory(i uint64) (uint64, error) {
	term, seg, _, err := r.term(i)
	if seg != nil {
		return 0, fmt.Errorf("term of entry %d: %w", i, segment.ErrNotInMemory)
	}
	return term, err
}

// term returns the term if it is in memory, and otherwise the segment that holds the entry and
// the one behind it.
func (r *reader) term(i uint64) (term uint64, seg, next *Segment, err error) {
	if err := r.failed(); err != nil {
		return 0, nil, nil, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	first, active := r.live[0], r.active
	switch {
	case i+1 < first.First:
		return 0, nil, nil, fmt.Errorf("term of entry %d, the first is %d: %w", i, first.First, segment.ErrTrimmed)
	case i >= active.index.Next:
		return 0, nil, nil, fmt.Errorf("term of entry %d, the last is %d: %w", i, active.index.Next-1, segment.ErrUnavailable)
	case i+1 == first.First:
		return first.header.TermBefore, nil, nil, nil
	}
	k := r.liveAt(i)
	switch seg := r.live[k]; {
	case seg == active:
		return active.index.Term(i), nil, nil, nil
	case seg.terms != nil:
		return (&format.Index{Terms: seg.terms}).Term(i), nil, nil, nil
	default:
		return 0, seg, r.live[k+1], nil
	}
}

// loadTerm reads the term from the headers if it is the same on both sides of the segment, and
// otherwise from its index.
func (r *reader) loadTerm(seg, next *Segment, i uint64) (uint64, error) {
	h, err := r.headerOf(seg)
	if err != nil {
		return 0, err
	}
	after, err := r.headerOf(next)
	if err != nil {
		return 0, err
	}
	if h.TermBefore == after.TermBefore {
		return h.TermBefore, nil
	}
	if err := r.useSegment(seg); err != nil {
		return 0, err
	}
	r.mu.RLock()
	term := seg.index.Term(i)
	r.mu.RUnlock()
	return term, r.release(seg)
}

func (r *reader) OffsetAtTime(unixMs int64) (record.Offset, error) {
	place, err := r.find(func(p *format.Point) bool { return p.Time < unixMs })
	if err != nil {
		return 0, fmt.Errorf("look up time %d: %w", unixMs, err)
	}
	return place.Offset, nil
}

// findOffset finds the first entry that begins at o or later.
func (r *reader) findOffset(o record.Offset) (format.Point, error) {
	place, err := r.find(func(p *format.Point) bool { return p.Offset < o })
	if err != nil {
		return place, fmt.Errorf("look up offset %d: %w", o, err)
	}
	return place, nil
}

func (r *reader) BytesFrom(from ...record.Offset) ([]int64, error) {
	last, err := r.findOffset(math.MaxInt64)
	if err != nil {
		return nil, err
	}
	bytes := make([]int64, len(from))
	for i, o := range from {
		first, err := r.findOffset(o)
		if err != nil {
			return nil, err
		}
		bytes[i] = int64(last.Bytes - min(first.Bytes, last.Bytes))
	}
	return bytes, nil
}

func (r *reader) OffsetAtSize(bytes int64, end record.Offset) (record.Offset, error) {
	last, err := r.findOffset(end)
	if err != nil {
		return 0, err
	}
	if last.Bytes < uint64(bytes) {
		return r.StartOffset(), nil
	}
	place, err := r.find(func(p *format.Point) bool { return p.Bytes < last.Bytes-uint64(bytes) })
	if err != nil {
		return 0, fmt.Errorf("look up %d bytes before offset %d: %w", bytes, end, err)
	}
	return min(place.Offset, end), nil
}
