package store

import (
	"errors"
	"fmt"
	"io/fs"

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
	err = errors.Join(s.spares.retire(unused), s.snapshots.drop())
	return more && err == nil, err
}

const recycleStep = 16

// beginAt makes it durable that the first n segments do not count any more.
func (s *Store) beginAt(n int) error {
	s.list.mu.RLock()
	first := s.segments[n]
	s.list.mu.RUnlock()
	if err := s.Begin.Move(first.Ordinal, first.First); err != nil {
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
		s.list.mu.RLock()
		for n := 1; n < len(s.segments) && s.segments[n-1].end <= below; n++ {
			if more = drop > 0 && n > recycleStep; more {
				break
			}
			if next := s.liveFrom(s.segments[n].Ordinal); s.snapshots.has(next.First - 1) {
				drop, oldest = n, next
			}
		}
		s.list.mu.RUnlock()
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
		s.snapshots.forget(oldest.First - 1)
	}
}
