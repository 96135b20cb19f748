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
//  3. The snapshot gets its name. From here on readers see the new log only:
//     they must not look for a file that is about to go.
//  4. The old segments and snapshots are removed, and the log is said to begin
//     with the new segment.
//  5. The new segment gets its name, and the witness is told.
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
	if err := writeSynced(s.fs, s.snapshotPath(index)+temporarySuffix, encodeSnapshot(s.options.Owner, index, term, snapshot)); err != nil {
		return err
	}
	if err := s.syncDir(); err != nil {
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
	if err := s.nameSnapshot(index); err != nil {
		return errors.Join(err, begun.file.Close())
	}
	unnamed := begun.path
	begun.path = strings.TrimSuffix(unnamed, resetSuffix) + ".seg"
	begun.unnamed.Store(true)
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
	if err := s.replaceBy(unnamed, begun, old, snapshots); err != nil {
		return err
	}
	begun.unnamed.Store(false)
	return s.testify()
}

// nameSnapshot gives the snapshot of a Reset its name. After a crash it may have
// it already.
func (s *Store) nameSnapshot(index uint64) error {
	path := s.snapshotPath(index)
	if err := s.fs.Rename(path+temporarySuffix, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replaceBy removes segments and all snapshots but that of begun, and renames the
// file unnamed to begun.path.
func (s *Store) replaceBy(unnamed string, begun *segment, segments []*segment, snapshots []uint64) error {
	for _, seg := range segments {
		if err := s.fs.Remove(seg.path); err != nil {
			return err
		}
	}
	for _, index := range snapshots {
		if index == begun.first-1 {
			continue
		}
		if err := s.fs.Remove(s.snapshotPath(index)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := s.moveBegin(begun.ordinal, begun.first); err != nil {
		return err
	}
	if err := s.syncDir(); err != nil {
		return err
	}
	if err := s.fs.Rename(unnamed, begun.path); err != nil {
		return err
	}
	return s.syncDir()
}

// finishReset goes on where a crash interrupted Reset.
func (s *Store) finishReset(found *files) error {
	begun := found.resets[0]
	unnamed := begun.path
	begun.path = strings.TrimSuffix(unnamed, resetSuffix) + ".seg"
	err := s.nameSnapshot(begun.first - 1)
	if err == nil {
		err = s.replaceBy(unnamed, begun, found.segments, found.snapshots)
	}
	if err != nil {
		return fmt.Errorf("finish reset: %w", err)
	}
	s.options.Logger.Info("finished an interrupted reset", "file", begun.path)
	return nil
}
