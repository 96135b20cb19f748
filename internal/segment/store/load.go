package store

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// loader opens the files of segments in use. Opening a log does not read all of its segments:
// headers and indexes are read when first needed. An index is released with the last user of its
// segment, since the indexes of a large log are large.
type loader struct {
	*Dir
	*failure
	*list
	spares *spares // segments that leave the log become spares
}

// use adds a user to the live segment of entry i, and loads it. The caller must release it.
func (l *loader) use(i uint64) (*Segment, error) {
	if err := l.failed(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if i < l.live[0].First {
		defer l.mu.Unlock()
		return nil, fmt.Errorf("entry %d, the first is %d: %w", i, l.live[0].First, segment.ErrTrimmed)
	}
	seg := l.live[l.liveAt(i)]
	seg.users++
	l.mu.Unlock()
	return seg, l.loadOrRelease(seg)
}

// useSegment is like use for a segment that was in the log a moment ago.
func (l *loader) useSegment(seg *Segment) error {
	if err := l.failed(); err != nil {
		return err
	}
	l.mu.Lock()
	if seg.gone {
		defer l.mu.Unlock()
		return fmt.Errorf("segment %s left the log: %w", seg.Path, segment.ErrTrimmed)
	}
	seg.users++
	l.mu.Unlock()
	return l.loadOrRelease(seg)
}

func (l *loader) loadOrRelease(seg *Segment) error {
	if err := l.load(seg); err != nil {
		return errors.Join(err, l.release(seg))
	}
	return nil
}

// release ends one use of seg. The last user closes the file, and removes it if the segment has
// left the log.
func (l *loader) release(seg *Segment) error {
	l.mu.Lock()
	seg.users--
	if seg.users > 0 {
		l.mu.Unlock()
		return nil
	}
	file, left := seg.file, seg.gone && !seg.removed
	seg.file = nil
	if seg.footer {
		seg.index = nil
	}
	seg.Size = max(seg.Size, seg.filled.Load())
	l.mu.Unlock()
	var err error
	if file != nil {
		err = file.Close()
	}
	if left && l.failed() == nil {
		err = errors.Join(err, l.spares.retire([]*Segment{seg}))
	}
	return err
}

// load opens the file of a segment in use and reads its index.
func (l *loader) load(seg *Segment) error {
	seg.loading.Lock()
	defer seg.loading.Unlock()
	l.mu.RLock()
	file, x, replaced := seg.file, seg.index, seg.gone && seg.removed
	l.mu.RUnlock()
	if file == nil && replaced {
		return fmt.Errorf("segment %s left the log: %w", seg.Path, segment.ErrTrimmed) // another file may have its name
	}
	if file == nil {
		var err error
		if file, err = l.FS.Open(seg.Path); err != nil {
			return fmt.Errorf("open segment: %w", err)
		}
		l.mu.Lock()
		seg.file = file
		l.mu.Unlock()
	}
	if x != nil {
		return nil
	}
	x, fromFooter, err := l.loadIndex(seg, file)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if x.Next < seg.end {
		defer l.mu.Unlock()
		return &segment.CorruptError{
			File: seg.Path, Position: seg.Size, FirstIndex: x.Next, LastIndex: seg.end - 1,
			Detail: fmt.Sprintf("it ends before entry %d, but the next segment begins with entry %d", x.Next, seg.end),
		}
	}
	seg.index, seg.footer, seg.terms = x, fromFooter, x.Terms
	l.mu.Unlock()
	return nil
}

// loadIndex reads the index of a segment that is not active. The header of the next segment says
// where the footer is, unless the segment was repaired. If the footer is damaged, the index is
// rebuilt from the frames.
func (l *loader) loadIndex(seg *Segment, file vfs.File) (x *format.Index, fromFooter bool, err error) {
	h, err := l.loadHeader(seg, file)
	if err != nil {
		return nil, false, err
	}
	footer, end := h.Footer, h.Footer
	if footer == 0 {
		next, err := l.successorHeader(seg)
		if err != nil {
			return nil, false, err
		}
		if err := next.ComesAfter(h); err != nil {
			return nil, false, headerCorrupt(seg, err)
		}
		footer, end = next.FooterBefore, next.EndBefore
	}
	if footer > 0 {
		if x, err := ReadFooter(file, h, footer); err == nil {
			return x, true, nil
		}
		l.Options.Logger.Warn("footer is damaged, scanning the segment", "file", seg.Path)
	}
	sc, err := scanFile(file, seg.Path, h, end, true)
	if err != nil {
		return nil, false, err
	}
	if sc.Bad != nil && (footer == 0 || sc.Position < footer) {
		l.mu.RLock()
		reach := seg.end
		l.mu.RUnlock()
		return nil, false, corruptFrame(file, seg.Path, h.Salt, sc.Position, end, sc.index.Next, reach, sc.Bad)
	}
	return sc.index, false, nil
}

// ReadFooter reads the index from the footer frame at the given position.
func ReadFooter(file vfs.File, h *format.Header, position int64) (*format.Index, error) {
	w := format.Walker{Salt: h.Salt, End: math.MaxInt64, Read: func(position, least, _ int64) ([]byte, error) {
		b := make([]byte, least)
		n, err := file.ReadAt(b, position)
		return b[:n], err
	}}
	if w.MoveTo(position); w.Next() && w.Frame.Kind == format.FooterFrame {
		if payload, ok := w.Payload(); ok {
			return format.ParseFooter(payload, h.First, position)
		}
	}
	return nil, cmp.Or(w.Err, w.Bad, format.ErrFooter)
}

// successorHeader returns the header of the segment that follows seg by ordinal, live or not.
func (l *loader) successorHeader(seg *Segment) (*format.Header, error) {
	l.mu.RLock()
	var next *Segment
	if k := int64(seg.Ordinal) + 1 - int64(l.segments[0].Ordinal); k >= 0 && k < int64(len(l.segments)) {
		next = l.segments[k]
	}
	l.mu.RUnlock()
	if next == nil {
		return nil, fmt.Errorf("segment %s left the log: %w", seg.Path, segment.ErrTrimmed)
	}
	h, err := l.headerOf(next)
	if err != nil {
		return nil, err
	}
	if h.EndBefore < format.HeaderSize || h.FooterBefore != 0 && h.FooterBefore < format.HeaderSize {
		return nil, headerCorrupt(next, errors.New("it does not contain the end of the previous segment"))
	}
	return h, nil
}

// headerOf returns the header of seg, and keeps it in memory.
func (l *loader) headerOf(seg *Segment) (*format.Header, error) {
	l.mu.Lock()
	if h := seg.header; h != nil {
		defer l.mu.Unlock()
		return h, nil
	}
	if seg.gone {
		defer l.mu.Unlock()
		return nil, fmt.Errorf("segment %s left the log: %w", seg.Path, segment.ErrTrimmed)
	}
	seg.users++
	l.mu.Unlock()
	h, err := l.OpenHeader(seg)
	if err == nil {
		l.mu.Lock()
		seg.header = h
		l.mu.Unlock()
	}
	return h, errors.Join(err, l.release(seg))
}

func (l *loader) loadHeader(seg *Segment, file vfs.File) (*format.Header, error) {
	l.mu.RLock()
	h := seg.header
	l.mu.RUnlock()
	if h != nil {
		return h, nil
	}
	h, err := l.ReadHeader(seg, file)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	seg.header = h
	return h, nil
}
