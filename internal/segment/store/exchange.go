package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// CompleteSegment is a complete segment under repair.
type CompleteSegment struct {
	*Segment
	Header *format.Header // nil if it is lost
	Index  *format.Index  // nil unless it is in memory
	End    uint64         // index behind the last valid entry
	Size   int64
}

// RepairGroup returns the segment at path together with those that must be rewritten with it, and
// the segment behind them, whose header is known. If the header of a segment is lost, the one
// before it is rewritten too, since the lost header said where that one ends.
func (s *Store) RepairGroup(path string, committed uint64) (group []CompleteSegment, next CompleteSegment, err error) {
	if err := s.failed(); err != nil {
		return nil, next, err
	}
	s.list.mu.RLock()
	segments := s.segments
	at := slices.IndexFunc(segments, func(seg *Segment) bool { return seg.Path == path })
	s.list.mu.RUnlock()
	if at < 0 {
		if filepath.Dir(path) == s.Path && strings.HasSuffix(path, ".seg") {
			return nil, next, segment.ErrTrimmed
		}
		return nil, next, segment.ErrNotComplete
	}
	first, last := at, at
	for ; ; first-- {
		g, err := s.repairable(segments[first], committed)
		if err != nil {
			return nil, next, err
		}
		group = slices.Insert(group, 0, g)
		if g.Header != nil || first == 0 {
			break // the header of the first segment is always known
		}
	}
	for {
		behind := segments[last+1] // the active segment is the last, and its header is known
		h, err := s.headerOf(behind)
		if err == nil {
			return group, CompleteSegment{Segment: behind, Header: h}, nil
		}
		if !damagedFile(err) {
			return nil, next, err
		}
		g, err := s.repairable(behind, committed)
		if err != nil {
			return nil, next, err
		}
		group = append(group, g)
		last++
	}
}

// repairable returns what is known about a segment. The error is ErrNotComplete if it cannot be repaired
// in an open log.
func (s *Store) repairable(seg *Segment, committed uint64) (g CompleteSegment, err error) {
	s.list.mu.RLock()
	live, active := slices.Contains(s.live, seg) && !seg.gone, seg == s.active
	g = CompleteSegment{Segment: seg, Index: seg.index, End: seg.end, Size: max(seg.Size, seg.filled.Load())}
	s.list.mu.RUnlock()
	if !live {
		return g, fmt.Errorf("%s: %w", seg.Path, segment.ErrNotComplete)
	}
	if active {
		s.rollNext.Store(seg.Ordinal)
		return g, fmt.Errorf("%s is the active segment: %w", seg.Path, segment.ErrNotCommitted)
	}
	if g.End > committed+1 {
		return g, fmt.Errorf("entries [%d, %d) of %s, committed up to %d: %w", seg.First, g.End, seg.Path, committed, segment.ErrNotCommitted)
	}
	g.Header, err = s.headerOf(seg)
	if err != nil && !damagedFile(err) {
		return g, err
	}
	return g, nil
}

// damagedFile reports whether an error of reading a file of the log means damage. A missing file
// is damage, too.
func damagedFile(err error) bool {
	return errors.As(err, new(*segment.CorruptError)) || errors.Is(err, fs.ErrNotExist)
}

// Rebuilt is a segment that was rewritten.
type Rebuilt struct {
	Name   string // of its file, without the suffix of an incomplete one
	Header *format.Header
	Index  *format.Index
}

// Exchange replaces segments in use with rewritten ones. Readers of the old files continue with
// them; new readers read the new files, through handles that were opened before the names change.
// A crash leaves the names in a state that the next Open completes, see SwapRepairs.
func (s *Store) Exchange(made []Rebuilt) error {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if err := s.failed(); err != nil {
		return err
	}
	fresh, err := s.openRebuilt(made)
	defer func() {
		for _, seg := range fresh {
			_ = s.release(seg) // only closes a handle that was never written to
		}
	}()
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	old, err := s.install(fresh)
	if err != nil {
		return err
	}
	err = func() error {
		for _, r := range made {
			if err := s.FS.Rename(r.Name+vfs.TemporarySuffix, r.Name); err != nil {
				return err
			}
		}
		found, err := s.List()
		if err != nil {
			return err
		}
		return found.SwapRepairs()
	}()
	for _, seg := range old {
		seg.loading.Unlock()
	}
	for _, seg := range fresh {
		seg.unnamed.Store(false)
	}
	if err != nil {
		return s.fail(fmt.Errorf("replace a segment by its repaired copy: %w", err))
	}
	return nil
}

// openRebuilt opens rewritten segments and returns them in use. With an error it returns those
// that it has opened.
func (l *loader) openRebuilt(made []Rebuilt) (fresh []*Segment, err error) {
	for _, r := range made {
		file, err := l.FS.Open(r.Name + vfs.TemporarySuffix)
		if err != nil {
			return fresh, err
		}
		seg := &Segment{
			Ordinal: r.Header.Ordinal, First: r.Header.First, Path: strings.TrimSuffix(r.Name, RepairSuffix) + ".seg",
			header: r.Header, index: r.Index, terms: r.Index.Terms, footer: true, file: file, users: 1,
		}
		seg.unnamed.Store(true)
		fresh = append(fresh, seg)
		if seg.Size, err = file.Size(); err != nil {
			return fresh, err
		}
		seg.filled.Store(seg.Size)
	}
	return fresh, nil
}

// DamagedSegment returns the segment file that a read error names. ok reports whether a replica
// may continue while that segment is repaired.
func DamagedSegment(cause error) (file string, ok bool) {
	var corrupt *segment.CorruptError
	var missing *fs.PathError
	switch {
	case errors.As(cause, &corrupt):
		file = corrupt.File
	case errors.Is(cause, fs.ErrNotExist) && errors.As(cause, &missing):
		file = missing.Path
	}
	return file, strings.HasSuffix(file, ".seg") && !strings.Contains(file, "*") && (corrupt == nil || !corrupt.Renew)
}
