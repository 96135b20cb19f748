package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"strandline.dev/internal/record"
)

const resetSuffix = ".reset"

// Reset goes through states that recovery tells apart by names alone:
//
//  1. The snapshot is made, under the name of one that is being written: the
//     old log may have another entry at its index, and must not take it for
//     its own.
//  2. The new first segment is made under a name of its own. If that name is
//     found after a crash, recovery goes on from here.
//  3. The snapshot gets its name; the old segments and snapshots are removed,
//     and the log is said to begin with the new segment.
//  4. The new segment gets its name, and the witness is told.
func (s *Store) Reset(index, term uint64, start record.Offset, hs HardState, snapshot []byte) error {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if err := s.failed(); err != nil {
		return err
	}
	if err := s.reset(index, term, start, hs, snapshot); err != nil {
		return s.fail(fmt.Errorf("reset to entry %d: %w", index, err))
	}
	return nil
}

func (s *Store) reset(index, term uint64, start record.Offset, hs HardState, snapshot []byte) error {
	if err := writeSynced(s.fs, s.snapshotPath(index)+temporarySuffix, encodeSnapshot(index, term, snapshot)); err != nil {
		return err
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return err
	}
	s.mu.Lock()
	s.hard = hs
	old, snapshots := s.segments, slices.Clone(s.snapshots)
	s.mu.Unlock()
	active := s.active
	begun, err := s.begin(&header{
		ordinal: active.ordinal + 1, first: index + 1, termBefore: term, start: start,
	}, resetSuffix)
	if err != nil {
		return err
	}
	if begun.path, err = s.replaceBy(begun, old, snapshots); err != nil {
		return errors.Join(err, begun.file.Close())
	}
	s.mu.Lock()
	for _, seg := range old {
		seg.gone, seg.removed = true, true
	}
	s.segments, s.live, s.snapshots = nil, nil, []uint64{index}
	s.activate(begun)
	s.mu.Unlock()
	if err := s.release(active); err != nil {
		return err
	}
	return s.testify()
}

// replaceBy gives the snapshot of a Reset its name, removes segments and all
// other snapshots, and returns the name of a segment, which it gives to begun.
func (s *Store) replaceBy(begun *segment, segments []*segment, snapshots []uint64) (name string, err error) {
	path := s.snapshotPath(begun.first - 1)
	// After a crash it may have its name already.
	if err := s.fs.Rename(path+temporarySuffix, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return begun.path, err
	}
	for _, seg := range segments {
		if err := s.fs.Remove(seg.path); err != nil {
			return begun.path, err
		}
	}
	for _, index := range snapshots {
		if index == begun.first-1 {
			continue
		}
		if err := s.fs.Remove(s.snapshotPath(index)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return begun.path, err
		}
	}
	if err := s.moveBegin(begun.ordinal, begun.first); err != nil {
		return begun.path, err
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return begun.path, err
	}
	name = strings.TrimSuffix(begun.path, resetSuffix) + ".seg"
	if err := s.fs.Rename(begun.path, name); err != nil {
		return begun.path, err
	}
	return name, s.fs.SyncDir(s.dir)
}

// finishReset goes on where a crash interrupted Reset.
func (s *Store) finishReset(found *files) error {
	if _, err := s.replaceBy(found.resets[0], found.segments, found.snapshots); err != nil {
		return fmt.Errorf("finish reset: %w", err)
	}
	s.options.Logger.Info("finished an interrupted reset", "file", found.resets[0].path)
	return nil
}
