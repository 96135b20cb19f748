package segment

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"strandline.dev/internal/record"
)

// A lookup asks for the first entry that is not before something: an index,
// an offset, a time, an amount of payload. All of these rise along the log.
// The headers tell the segment, the points of its index the stretch of 64 KiB,
// and the frame headers in there the entry.

// find returns the place of the first entry for which before is false, or
// where the next entry will be. before must not be true again once it was
// false; the position of a place that is not in the entry's segment is 0.
func (s *Store) find(before func(*point) bool) (point, error) {
	for {
		place, err := s.findIn(s.liveSegments(), before)
		if !errors.Is(err, ErrTrimmed) {
			return place, err
		}
		// A segment was recycled between the two steps; look at what is left.
	}
}

func (s *Store) liveSegments() []*segment {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.live)
}

func (s *Store) findIn(live []*segment, before func(*point) bool) (point, error) {
	k, err := s.lastBefore(live, before)
	if err != nil {
		return point{}, err
	}
	seg := live[k]
	if err := s.useSegment(seg); err != nil {
		return point{}, err
	}
	place, err := s.findEntry(seg, before)
	err = errors.Join(err, s.release(seg))
	if err == nil && k+1 < len(live) && place.index >= live[k+1].first {
		h, err := s.headerOf(live[k+1])
		if err != nil {
			return point{}, err
		}
		return h.point(), nil
	}
	return place, err
}

// lastBefore returns the last of live of which something may be before; 0 if
// there is none. A segment whose header is damaged is passed over: what lies in
// others is found all the same.
func (s *Store) lastBefore(live []*segment, before func(*point) bool) (int, error) {
	found, end := 0, len(live) // found may have something before, end has nothing
	for from := 0; from < end; {
		middle := from + (end-from)/2
		k, h, err := s.nextHeader(live[:end], middle)
		if err != nil {
			return 0, err
		}
		if h == nil {
			end = middle
			continue
		}
		if p := h.point(); before(&p) {
			found, from = k, k+1
		} else {
			end = middle
		}
	}
	return found, nil
}

// nextHeader returns the first header from live[k] on that is not damaged, and
// whose it is; nil if there is none.
func (s *Store) nextHeader(live []*segment, k int) (int, *header, error) {
	for ; k < len(live); k++ {
		h, err := s.headerOf(live[k])
		if err == nil || !damagedFile(err) {
			return k, h, err
		}
	}
	return k, nil, nil
}

// point is the place of the segment's first entry, as far as the header
// tells it.
func (h *header) point() point {
	return point{index: h.first, offset: h.start, time: h.time, bytes: h.bytesBefore}
}

// findEntry is find within one segment, which is in use.
func (s *Store) findEntry(seg *segment, before func(*point) bool) (point, error) {
	s.mu.RLock()
	from, after, limit, ok := seg.index.bracket(before)
	file, salt := seg.file, seg.header.salt
	s.mu.RUnlock()
	if !ok {
		return after, nil
	}
	return seek(file, seg.path, salt, from, after, limit, before)
}

// bracket returns the last point that is before, the place after it, and the
// position at which the frames between the two end. Without ok there is
// nothing between them: after is the answer.
func (x *index) bracket(before func(*point) bool) (from, after point, limit int64, ok bool) {
	k := sort.Search(len(x.points), func(k int) bool { return !before(&x.points[k]) })
	after = point{index: x.next, offset: x.nextOffset, time: x.time, bytes: x.bytes}
	if k < len(x.points) {
		after = x.points[k]
	}
	if k == 0 {
		return from, after, 0, false
	}
	from = x.points[k-1]
	r, _ := x.run(from.index)
	limit = r.end
	if k < len(x.points) {
		limit = min(limit, after.position)
	}
	return from, after, limit, true
}

// seek walks the frame headers from the point from up to limit, and returns
// the place of the first entry that is not before; after if all are.
func seek(file File, path string, salt uint64, from, after point, limit int64, before func(*point) bool) (point, error) {
	// Entries start less than pointDistance behind a point, so this holds
	// their headers. Other frames may lie behind a last large entry.
	b := make([]byte, min(limit-from.position, pointDistance+frameHeaderSize))
	if _, err := file.ReadAt(b, from.position); err != nil {
		return point{}, fmt.Errorf("read %s: %w", path, err)
	}
	place := from
	for position := from.position; position < limit; {
		at := position - from.position
		if at+frameHeaderSize > int64(len(b)) && position+frameHeaderSize <= limit {
			from.position, at, b = position, 0, b[:frameHeaderSize]
			if _, err := file.ReadAt(b, position); err != nil {
				return point{}, fmt.Errorf("read %s: %w", path, err)
			}
		}
		h, err := parseFrameHeader(b[min(at, int64(len(b))):], position, salt)
		if err != nil {
			return point{}, corruptFrame(file, path, salt, position, limit, place.index, after.index, err)
		}
		if h.kind == entryFrame {
			place.position, place.index, place.offset = position, h.index, h.first
			place.time = max(place.time, h.time)
			if !before(&place) {
				return place, nil
			}
			place.index++
			place.bytes += uint64(h.length)
		}
		position += h.size()
	}
	return after, nil
}

// Term is answered from memory, except for entries of segments of before this
// process.
func (s *Store) Term(i uint64) (uint64, error) {
	term, seg, next, err := s.term(i)
	if seg != nil {
		return s.loadTerm(seg, next, i)
	}
	return term, err
}

func (s *Store) TermInMemory(i uint64) (uint64, error) {
	term, seg, _, err := s.term(i)
	if seg != nil {
		return 0, fmt.Errorf("term of entry %d: %w", i, ErrNotInMemory)
	}
	return term, err
}

// term answers from memory, or returns the segment that the entry is in and the
// one behind.
func (s *Store) term(i uint64) (term uint64, seg, next *segment, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	first, active := s.live[0], s.active
	switch {
	case s.failure != nil:
		return 0, nil, nil, s.failure
	case i+1 < first.first:
		return 0, nil, nil, fmt.Errorf("term of entry %d, the first is %d: %w", i, first.first, ErrTrimmed)
	case i >= active.index.next:
		return 0, nil, nil, fmt.Errorf("term of entry %d, the last is %d: %w", i, active.index.next-1, ErrUnavailable)
	case i+1 == first.first:
		return first.header.termBefore, nil, nil, nil
	}
	k := s.liveAt(i)
	switch seg := s.live[k]; {
	case seg == active:
		return active.index.term(i), nil, nil, nil
	case seg.terms != nil:
		return (&index{terms: seg.terms}).term(i), nil, nil, nil
	default:
		return 0, seg, s.live[k+1], nil
	}
}

// loadTerm answers from the headers if the term is the same on both sides of
// the segment, and else from its index.
func (s *Store) loadTerm(seg, next *segment, i uint64) (uint64, error) {
	h, err := s.headerOf(seg)
	if err != nil {
		return 0, err
	}
	after, err := s.headerOf(next)
	if err != nil {
		return 0, err
	}
	if h.termBefore == after.termBefore {
		return h.termBefore, nil
	}
	if err := s.useSegment(seg); err != nil {
		return 0, err
	}
	s.mu.RLock()
	term := seg.index.term(i)
	s.mu.RUnlock()
	return term, s.release(seg)
}

func (s *Store) OffsetAtTime(unixMs int64) (record.Offset, error) {
	place, err := s.find(func(p *point) bool { return p.time < unixMs })
	if err != nil {
		return 0, fmt.Errorf("look up time %d: %w", unixMs, err)
	}
	return place.offset, nil
}

func (s *Store) OffsetAtSize(bytes int64, end record.Offset) (record.Offset, error) {
	last, err := s.find(func(p *point) bool { return p.offset < end })
	if err != nil {
		return 0, fmt.Errorf("look up offset %d: %w", end, err)
	}
	if last.bytes < uint64(bytes) {
		return s.StartOffset(), nil
	}
	place, err := s.find(func(p *point) bool { return p.bytes < last.bytes-uint64(bytes) })
	if err != nil {
		return 0, fmt.Errorf("look up %d bytes before offset %d: %w", bytes, end, err)
	}
	return min(place.offset, end), nil
}
