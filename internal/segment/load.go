package segment

import (
	"errors"
	"fmt"
	"io"
)

// A log of many segments is opened without looking into them. Headers and
// indexes are read when they are first asked for; an index is let go with the
// last user of its segment, since the indexes of a large log are large.

// use adds a user to the live segment of entry i, and loads it. The caller
// releases it.
func (s *Store) use(i uint64) (*segment, error) {
	s.mu.Lock()
	if s.failure != nil {
		defer s.mu.Unlock()
		return nil, s.failure
	}
	if i < s.live[0].first {
		defer s.mu.Unlock()
		return nil, fmt.Errorf("entry %d, the first is %d: %w", i, s.live[0].first, ErrTrimmed)
	}
	seg := s.live[s.liveAt(i)]
	seg.users++
	s.mu.Unlock()
	return seg, s.loadOrRelease(seg)
}

// useSegment is use for a segment that was in the log a moment ago.
func (s *Store) useSegment(seg *segment) error {
	s.mu.Lock()
	if s.failure != nil {
		defer s.mu.Unlock()
		return s.failure
	}
	if seg.gone {
		defer s.mu.Unlock()
		return fmt.Errorf("segment %s left the log: %w", seg.path, ErrTrimmed)
	}
	seg.users++
	s.mu.Unlock()
	return s.loadOrRelease(seg)
}

func (s *Store) loadOrRelease(seg *segment) error {
	if err := s.load(seg); err != nil {
		return errors.Join(err, s.release(seg))
	}
	return nil
}

// load opens the file of a segment in use and reads its index.
func (s *Store) load(seg *segment) error {
	seg.loading.Lock()
	defer seg.loading.Unlock()
	s.mu.RLock()
	file, x, replaced := seg.file, seg.index, seg.gone && seg.removed
	s.mu.RUnlock()
	if file == nil && replaced {
		return fmt.Errorf("segment %s left the log: %w", seg.path, ErrTrimmed) // another may have its name
	}
	if file == nil {
		var err error
		if file, err = s.fs.Open(seg.path); err != nil {
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
	if x.next < seg.end {
		defer s.mu.Unlock()
		return &CorruptError{
			File: seg.path, Position: seg.size, FirstIndex: x.next, LastIndex: seg.end - 1,
			Detail: fmt.Sprintf("it ends before entry %d, and the next segment begins with %d", x.next, seg.end),
		}
	}
	seg.index, seg.footer, seg.terms = x, fromFooter, x.terms
	s.mu.Unlock()
	return nil
}

// loadIndex reads the index of a segment that is not active. The next segment
// knows where its footer is, unless it was mended. If that is damaged, the
// frames tell the same.
func (s *Store) loadIndex(seg *segment, file File) (x *index, fromFooter bool, err error) {
	h, err := s.loadHeader(seg, file)
	if err != nil {
		return nil, false, err
	}
	footer, end := h.footer, h.footer
	if footer == 0 {
		next, err := s.successorHeader(seg)
		if err != nil {
			return nil, false, err
		}
		if err := next.comesAfter(h); err != nil {
			return nil, false, headerCorrupt(seg, err)
		}
		footer, end = next.footerBefore, next.endBefore
	}
	if footer > 0 {
		if x, err := readFooter(file, h, footer); err == nil {
			return x, true, nil
		}
		s.options.Logger.Warn("footer is damaged, scanning the segment", "file", seg.path)
	}
	sc := scanner{file: file, path: seg.path, header: h, size: end, holes: true}
	if err := sc.scan(); err != nil {
		return nil, false, err
	}
	if sc.bad != nil && (footer == 0 || sc.position < footer) {
		s.mu.RLock()
		reach := seg.end
		s.mu.RUnlock()
		return nil, false, corruptFrame(file, seg.path, h.salt, sc.position, end, sc.index.next, reach, sc.bad)
	}
	return sc.index, false, nil
}

// readFooter reads the index in the footer frame at position.
func readFooter(file File, h *header, position int64) (*index, error) {
	b := make([]byte, frameHeaderSize)
	if _, err := file.ReadAt(b, position); err != nil {
		return nil, err
	}
	f, err := parseFrameHeader(b, position, h.salt)
	if err != nil {
		return nil, err
	}
	if f.kind != footerFrame {
		return nil, errFooter
	}
	payload := make([]byte, f.length)
	if _, err := file.ReadAt(payload, position+frameHeaderSize); err != nil {
		return nil, err
	}
	if err := f.checkPayload(payload); err != nil {
		return nil, err
	}
	return parseFooter(payload, h.first, position)
}

// successorHeader returns the header of the segment that was begun after seg,
// live or not.
func (s *Store) successorHeader(seg *segment) (*header, error) {
	s.mu.RLock()
	var next *segment
	if k := int64(seg.ordinal) + 1 - int64(s.segments[0].ordinal); k >= 0 && k < int64(len(s.segments)) {
		next = s.segments[k]
	}
	s.mu.RUnlock()
	if next == nil {
		return nil, fmt.Errorf("segment %s left the log: %w", seg.path, ErrTrimmed)
	}
	h, err := s.headerOf(next)
	if err != nil {
		return nil, err
	}
	if h.endBefore < headerSize || h.footerBefore != 0 && h.footerBefore < headerSize {
		return nil, headerCorrupt(next, errors.New("it does not tell where the segment before ends"))
	}
	return h, nil
}

// headerOf returns the header of seg, which stays in memory from then on.
func (s *Store) headerOf(seg *segment) (*header, error) {
	s.mu.Lock()
	if h := seg.header; h != nil {
		defer s.mu.Unlock()
		return h, nil
	}
	if seg.gone {
		defer s.mu.Unlock()
		return nil, fmt.Errorf("segment %s left the log: %w", seg.path, ErrTrimmed)
	}
	seg.users++
	s.mu.Unlock()
	h, err := s.openHeader(seg)
	return h, errors.Join(err, s.release(seg))
}

func (s *Store) openHeader(seg *segment) (*header, error) {
	file, err := s.fs.Open(seg.path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	h, err := s.loadHeader(seg, file)
	return h, errors.Join(err, file.Close())
}

func (s *Store) loadHeader(seg *segment, file File) (*header, error) {
	s.mu.RLock()
	h := seg.header
	s.mu.RUnlock()
	if h != nil {
		return h, nil
	}
	h, err := s.readHeader(seg, file)
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
func (s *Store) readHeader(seg *segment, file File) (*header, error) {
	h, err := readHeader(seg, file)
	if err != nil {
		return nil, err
	}
	if err := s.options.Owner.foreign(h.owner); err != nil {
		return nil, headerCorrupt(seg, err)
	}
	if err := h.fits(seg); err != nil {
		return nil, err
	}
	return h, nil
}

// readHeader reads the header of seg's file, whatever log and name it is for.
func readHeader(seg *segment, file File) (*header, error) {
	b := make([]byte, headerSize)
	if n, err := file.ReadAt(b, 0); err == io.EOF {
		b = b[:n]
	} else if unreadable(err) {
		return nil, headerCorrupt(seg, err)
	} else if err != nil {
		return nil, fmt.Errorf("read segment header: %w", err)
	}
	h, err := parseHeader(b)
	if err != nil {
		return nil, headerCorrupt(seg, err)
	}
	return h, nil
}

// fits answers a *CorruptError if h is the header of another segment than the
// file's name says.
func (h *header) fits(seg *segment) error {
	if h.ordinal != seg.ordinal || h.first != seg.first {
		return headerCorrupt(seg, fmt.Errorf("header of segment %d from entry %d", h.ordinal, h.first))
	}
	return nil
}

func headerCorrupt(seg *segment, reason error) error {
	return &CorruptError{
		File: seg.path, FirstIndex: seg.first, LastIndex: max(seg.end, seg.first+1) - 1, Detail: reason.Error(),
	}
}
