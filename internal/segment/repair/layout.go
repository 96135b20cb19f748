package repair

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// layout is the list of the segments of a log that may be damaged, or of those that are read.
type layout struct {
	dir   *store.Dir
	parts []part // by ordinal, without a gap

	narrowed bool   // parts are not all segments of the log
	logFirst uint64 // first index of the log, if narrowed

	from, at int // the first part with a valid entry, and the one being read
}

// part is a segment of a log that may be damaged.
type part struct {
	ordinal uint64
	first   uint64 // first index in its name; 0: the file is missing and its name unknown
	path    string
	size    int64
	missing bool
	damaged bool
	header  *format.Header // nil if it is not valid
	reason  error          // why header is not valid
	end     int64          // position behind the last frame
	footer  int64          // position of the footer, if that is the last frame; else 0
}

// narrow lists the parts: all, or those from the segment before suspect on. The first of these
// must be known: it has valid entries, and its header says where it begins.
func (l *layout) narrow(found *store.Files, suspect uint64) error {
	from := sort.Search(len(found.Segments), func(k int) bool { return found.Segments[k].Ordinal >= suspect }) - 1
	for ; from > 0; from-- {
		if hidden(found.Segments[from:]) {
			continue
		}
		rest := *found
		rest.Segments, rest.Begin = found.Segments[from:], nil
		if err := l.readHeaders(&rest); err != nil {
			return err
		}
		if l.parts[0].header != nil {
			l.narrowed = true
			l.logFirst = found.Segments[0].First
			if found.Begin != nil {
				l.logFirst = found.Begin.First
			}
			return nil
		}
		l.parts = nil
	}
	return l.readHeaders(found)
}

// hidden reports whether a later segment truncated all entries of the first one.
func hidden(segments []*store.Segment) bool {
	return slices.ContainsFunc(segments[1:], func(later *store.Segment) bool { return later.First <= segments[0].First })
}

// hidden reports whether part k has no valid entry: a later part begins with the same index or a
// lower one.
func (l *layout) hidden(k int) bool {
	for _, later := range l.parts[k+1:] {
		if later.first > 0 && later.first <= l.parts[k].first {
			return true
		}
	}
	return false
}

// readHeaders lists the parts and reads their headers. There is a part for a missing file, too.
func (l *layout) readHeaders(found *store.Files) error {
	segments := found.Segments
	if b := found.Begin; b != nil {
		segments = slices.DeleteFunc(slices.Clone(segments), func(s *store.Segment) bool { return s.Ordinal < b.Ordinal })
		if len(segments) == 0 || segments[0].Ordinal > b.Ordinal {
			l.miss(b.Ordinal, b.First)
		}
	}
	for _, seg := range segments {
		for n := len(l.parts); n > 0 && l.parts[n-1].ordinal+1 < seg.Ordinal; n++ {
			l.miss(l.parts[n-1].ordinal+1, 0)
		}
		p := part{ordinal: seg.Ordinal, first: seg.First, path: seg.Path, size: seg.Size}
		var err error
		p.header, err = l.dir.OpenHeader(seg)
		var corrupt *segment.CorruptError
		if errors.As(err, &corrupt) {
			p.reason = errors.New(corrupt.Detail)
		} else if err != nil {
			return err
		}
		l.parts = append(l.parts, p)
	}
	for k := 1; k < len(l.parts); k++ {
		p, next := &l.parts[k-1], &l.parts[k]
		if p.header == nil || next.header == nil {
			continue
		}
		if p.reason = next.header.ComesAfter(p.header); p.reason != nil {
			p.header = nil
		}
	}
	return nil
}

func (l *layout) miss(ordinal, first uint64) {
	name := fmt.Sprintf("%020d-*.seg", ordinal)
	if first > 0 {
		name = store.SegmentName(ordinal, first) + ".seg"
	}
	l.parts = append(l.parts, part{ordinal: ordinal, first: first, missing: true, damaged: true, path: filepath.Join(l.dir.Path, name)})
}

func (l *layout) newest() bool { return l.at == len(l.parts)-1 }

// findEnd returns the position of the footer of a part and the position at which its frames end; 0
// if they are not known. The header of a rebuilt segment has both; for every other segment, the
// header of the next one has them.
func (l *layout) findEnd(p *part, file vfs.File) (footer, end int64, err error) {
	if h := p.header; h != nil && h.Rebuilt() {
		w := store.NewWalker(file, p.path, h.Salt, p.size, true)
		end = h.Footer + format.FrameHeaderSize
		if w.MoveTo(h.Footer); w.Next() {
			if _, ok := w.Payload(); ok {
				end = h.Footer + w.Frame.Size()
			}
		}
		return h.Footer, end, w.Err
	}
	if l.newest() {
		return 0, 0, nil
	}
	if next := l.parts[l.at+1].header; next != nil && next.EndBefore >= format.HeaderSize {
		return next.FooterBefore, next.EndBefore, nil
	}
	return 0, 0, nil
}
