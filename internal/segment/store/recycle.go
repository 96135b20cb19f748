package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"strandline.dev/internal/segment"
)

// Recycle takes whole segments from the front of the log, up to one whose
// start has a snapshot: without it nobody could begin there. Their files become
// spares if the log is busy enough to want them soon, and are removed
// otherwise. A segment with readers leaves the log now and its file with the
// last of them.
//
// One call takes about recycleStep segments: the directory is synced twice for
// them, and the journal that the file system writes for their removal stays
// small, since the syncs of the writer may have to wait for it.
func (s *Store) Recycle(below uint64) (more bool, err error) {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if err := s.failed(); err != nil {
		return false, err
	}
	drop, oldest, more, err := s.front(below)
	if err != nil || drop == 0 {
		return false, err
	}
	// Everyone may ask for the first index, its term and offset at any time.
	if _, err := s.headerOf(oldest); err != nil {
		return false, fmt.Errorf("recycle below entry %d: %w", below, err)
	}
	if err := s.beginAt(drop); err != nil {
		return false, fmt.Errorf("recycle below entry %d: %w", below, err)
	}
	unused := s.dropFront(drop, oldest.First)
	err = errors.Join(s.retire(unused), s.dropSnapshots())
	return more && err == nil, err
}

const recycleStep = 16

// beginAt makes it durable that the first n segments do not count any more.
func (s *Store) beginAt(n int) error {
	s.mu.RLock()
	first := s.segments[n]
	s.mu.RUnlock()
	if err := s.MoveBegin(first.Ordinal, first.First); err != nil {
		return err
	}
	return s.SyncDir()
}

// front returns how many segments may go in one step, the live one that is the
// oldest after that, and whether more may go. The snapshot of the oldest is
// read: once the segments before are gone there is no other to begin with.
func (s *Store) front(below uint64) (drop int, oldest *Segment, more bool, err error) {
	for {
		drop, more = 0, false
		s.mu.RLock()
		for n := 1; n < len(s.segments) && s.segments[n-1].end <= below; n++ {
			if more = drop > 0 && n > recycleStep; more {
				break
			}
			if next := s.liveFrom(s.segments[n].Ordinal); s.hasSnapshot(next.First - 1) {
				drop, oldest = n, next
			}
		}
		s.mu.RUnlock()
		if drop == 0 {
			return 0, nil, false, nil
		}
		_, _, err := s.ReadSnapshot(oldest.First - 1)
		if err == nil {
			return drop, oldest, more, nil
		}
		if !errors.As(err, new(*segment.CorruptError)) && !errors.Is(err, fs.ErrNotExist) {
			return 0, nil, false, fmt.Errorf("recycle below entry %d: %w", below, err)
		}
		s.Options.Logger.Error("snapshot cannot be used, recycling less", "error", err)
		s.forgetSnapshot(oldest.First - 1)
	}
}

// forgetSnapshot leaves a file that is there, for people to look at.
func (s *Store) forgetSnapshot(index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, found := slices.BinarySearch(s.snapshots, index); found {
		s.snapshots = slices.Delete(s.snapshots, at, at+1)
	}
}

// liveFrom returns the first live segment of an ordinal or above. The caller
// holds mu.
func (s *Store) liveFrom(ordinal uint64) *Segment {
	for _, seg := range s.live {
		if seg.Ordinal >= ordinal {
			return seg
		}
	}
	return s.active
}

// hasSnapshot reports whether there is one of the state after an entry. The
// caller holds mu.
func (s *Store) hasSnapshot(index uint64) bool {
	_, found := slices.BinarySearch(s.snapshots, index)
	return found
}

// dropFront takes the first n segments out of the log, so that it begins at the
// entry first, and returns those that nobody uses. The segment that begins there
// may be hidden by now: a write truncated its first entry.
func (s *Store) dropFront(n int, first uint64) (unused []*Segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.segments[:n] {
		seg.gone = true
		if seg.users == 0 {
			unused = append(unused, seg)
		}
	}
	s.segments = append([]*Segment(nil), s.segments[n:]...)
	for s.live[0].First < first {
		s.live = s.live[1:]
	}
	return unused
}

// retire makes spares of the files of segments, or removes them. They are in
// rising order, and are used by nobody.
//
// The directory is synced before a file is used again. Otherwise this could
// happen: the file is renamed, gets the header of a new segment, the power
// goes, and the old name is back with the new header behind it.
//
// An error leaves files that are no longer part of the log. The next Open
// removes them.
func (s *Store) retire(segments []*Segment) error {
	if len(segments) == 0 {
		return nil
	}
	var recycled []*spare
	for _, seg := range segments {
		sp := s.spareOf(seg, len(recycled))
		var err error
		if sp != nil {
			err = s.FS.Rename(seg.Path, sp.path)
		} else {
			err = s.FS.Remove(seg.Path)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // somebody else removed it: it is not missed
		case err != nil:
			return fmt.Errorf("recycle: %w", err)
		case sp != nil:
			recycled = append(recycled, sp)
		}
	}
	if err := s.SyncDir(); err != nil {
		return fmt.Errorf("recycle: %w", err)
	}
	s.spares.mu.Lock()
	defer s.spares.mu.Unlock()
	for _, sp := range recycled {
		sp.named = true
	}
	s.spares.kept = append(s.spares.kept, recycled...)
	s.filler.kick() // it opens the next spare
	return nil
}

// spareOf returns the spare that seg is to become, beside so many others; nil
// if there are enough, or the log is too idle to want one.
func (s *Store) spareOf(seg *Segment, others int) *spare {
	s.spares.mu.Lock()
	defer s.spares.mu.Unlock()
	enough := s.Options.SegmentBytes / 2
	if s.filler.recent.Load() < enough || seg.Size < enough || len(s.spares.kept)+others >= sparesMax {
		return nil
	}
	return &spare{path: s.sparePath(), filled: seg.Size}
}

// release ends one use of seg. The last user closes the file, and removes it
// if the segment has left the log meanwhile.
func (s *Store) release(seg *Segment) error {
	s.mu.Lock()
	seg.users--
	if seg.users > 0 {
		s.mu.Unlock()
		return nil
	}
	file, left := seg.file, seg.gone && !seg.removed
	seg.file = nil
	if seg.footer {
		seg.index = nil
	}
	seg.Size = max(seg.Size, seg.filled.Load())
	closed := s.failure != nil
	s.mu.Unlock()
	var err error
	if file != nil {
		err = file.Close()
	}
	if left && !closed {
		err = errors.Join(err, s.retire([]*Segment{seg}))
	}
	return err
}
