package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// A log of many segments is opened without looking into them. Headers and
// indexes are read when they are first asked for; an index is let go with the
// last user of its segment, since the indexes of a large log are large.

// use adds a user to the live segment of entry i, and loads it. The caller
// releases it.
func (s *Store) use(i uint64) (*Segment, error) {
	s.mu.Lock()
	if s.failure != nil {
		defer s.mu.Unlock()
		return nil, s.failure
	}
	if i < s.live[0].First {
		defer s.mu.Unlock()
		return nil, fmt.Errorf("entry %d, the first is %d: %w", i, s.live[0].First, segment.ErrTrimmed)
	}
	seg := s.live[s.liveAt(i)]
	seg.users++
	s.mu.Unlock()
	return seg, s.loadOrRelease(seg)
}

// useSegment is use for a segment that was in the log a moment ago.
func (s *Store) useSegment(seg *Segment) error {
	s.mu.Lock()
	if s.failure != nil {
		defer s.mu.Unlock()
		return s.failure
	}
	if seg.gone {
		defer s.mu.Unlock()
		return fmt.Errorf("segment %s left the log: %w", seg.Path, segment.ErrTrimmed)
	}
	seg.users++
	s.mu.Unlock()
	return s.loadOrRelease(seg)
}

func (s *Store) loadOrRelease(seg *Segment) error {
	if err := s.load(seg); err != nil {
		return errors.Join(err, s.release(seg))
	}
	return nil
}

// load opens the file of a segment in use and reads its index.
func (s *Store) load(seg *Segment) error {
	seg.loading.Lock()
	defer seg.loading.Unlock()
	s.mu.RLock()
	file, x, replaced := seg.file, seg.index, seg.gone && seg.removed
	s.mu.RUnlock()
	if file == nil && replaced {
		return fmt.Errorf("segment %s left the log: %w", seg.Path, segment.ErrTrimmed) // another may have its name
	}
	if file == nil {
		var err error
		if file, err = s.FS.Open(seg.Path); err != nil {
			return fmt.Errorf("open segment: %w", err)
		}
		s.mu.Lock()
		seg.file = file
		s.mu.Unlock()
	}
	if x != nil {
		return nil
	}
	x, fromFooter, err := s.loadIndex(seg, file)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if x.Next < seg.end {
		defer s.mu.Unlock()
		return &segment.CorruptError{
			File: seg.Path, Position: seg.Size, FirstIndex: x.Next, LastIndex: seg.end - 1,
			Detail: fmt.Sprintf("it ends before entry %d, and the next segment begins with %d", x.Next, seg.end),
		}
	}
	seg.index, seg.footer, seg.terms = x, fromFooter, x.Terms
	s.mu.Unlock()
	return nil
}

// loadIndex reads the index of a segment that is not active. The next segment
// knows where its footer is, unless it was repaired. If that is damaged, the
// frames tell the same.
func (s *Store) loadIndex(seg *Segment, file vfs.File) (x *format.Index, fromFooter bool, err error) {
	h, err := s.loadHeader(seg, file)
	if err != nil {
		return nil, false, err
	}
	footer, end := h.Footer, h.Footer
	if footer == 0 {
		next, err := s.successorHeader(seg)
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
		s.Options.Logger.Warn("footer is damaged, scanning the segment", "file", seg.Path)
	}
	sc, err := scanFile(file, seg.Path, h, end, true)
	if err != nil {
		return nil, false, err
	}
	if sc.Bad != nil && (footer == 0 || sc.Position < footer) {
		s.mu.RLock()
		reach := seg.end
		s.mu.RUnlock()
		return nil, false, corruptFrame(file, seg.Path, h.Salt, sc.Position, end, sc.index.Next, reach, sc.Bad)
	}
	return sc.index, false, nil
}

// ReadFooter reads the index in the footer frame at position.
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

// successorHeader returns the header of the segment that was begun after seg,
// live or not.
func (s *Store) successorHeader(seg *Segment) (*format.Header, error) {
	s.mu.RLock()
	var next *Segment
	if k := int64(seg.Ordinal) + 1 - int64(s.segments[0].Ordinal); k >= 0 && k < int64(len(s.segments)) {
		next = s.segments[k]
	}
	s.mu.RUnlock()
	if next == nil {
		return nil, fmt.Errorf("segment %s left the log: %w", seg.Path, segment.ErrTrimmed)
	}
	h, err := s.headerOf(next)
	if err != nil {
		return nil, err
	}
	if h.EndBefore < format.HeaderSize || h.FooterBefore != 0 && h.FooterBefore < format.HeaderSize {
		return nil, headerCorrupt(next, errors.New("it does not tell where the segment before ends"))
	}
	return h, nil
}

// headerOf returns the header of seg, which stays in memory from then on.
func (s *Store) headerOf(seg *Segment) (*format.Header, error) {
	s.mu.Lock()
	if h := seg.header; h != nil {
		defer s.mu.Unlock()
		return h, nil
	}
	if seg.gone {
		defer s.mu.Unlock()
		return nil, fmt.Errorf("segment %s left the log: %w", seg.Path, segment.ErrTrimmed)
	}
	seg.users++
	s.mu.Unlock()
	h, err := s.openHeader(seg)
	return h, errors.Join(err, s.release(seg))
}

func (s *Store) openHeader(seg *Segment) (*format.Header, error) {
	file, err := s.FS.Open(seg.Path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	h, err := s.loadHeader(seg, file)
	return h, errors.Join(err, file.Close())
}

func (s *Store) loadHeader(seg *Segment, file vfs.File) (*format.Header, error) {
	s.mu.RLock()
	h := seg.header
	s.mu.RUnlock()
	if h != nil {
		return h, nil
	}
	h, err := s.ReadHeader(seg, file)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seg.header = h
	return h, nil
}

// readHeader reads and checks the header of seg's file, which has to be one of
// this log.
func (d *Dir) ReadHeader(seg *Segment, file vfs.File) (*format.Header, error) {
	h, err := readHeader(seg, file)
	if err != nil {
		return nil, err
	}
	if err := d.Options.Owner.Mismatch(h.Owner); err != nil {
		return nil, headerCorrupt(seg, err)
	}
	if err := fits(h, seg); err != nil {
		return nil, err
	}
	return h, nil
}

// readHeader reads the header of seg's file, whatever log and name it is for.
func readHeader(seg *Segment, file vfs.File) (*format.Header, error) {
	b := make([]byte, format.HeaderSize)
	if n, err := file.ReadAt(b, 0); err == io.EOF {
		b = b[:n]
	} else if vfs.Unreadable(err) {
		return nil, headerCorrupt(seg, err)
	} else if err != nil {
		return nil, fmt.Errorf("read segment header: %w", err)
	}
	h, err := format.ParseHeader(b)
	if err != nil {
		return nil, headerCorrupt(seg, err)
	}
	return h, nil
}

// fits answers a *CorruptError if h is the header of another segment than the
// file's name says.
func fits(h *format.Header, seg *Segment) error {
	if h.Ordinal != seg.Ordinal || h.First != seg.First {
		return headerCorrupt(seg, fmt.Errorf("header of segment %d from entry %d", h.Ordinal, h.First))
	}
	return nil
}

func headerCorrupt(seg *Segment, reason error) error {
	return &segment.CorruptError{
		File: seg.Path, FirstIndex: seg.First, LastIndex: max(seg.end, seg.First+1) - 1, Detail: reason.Error(),
	}
}
