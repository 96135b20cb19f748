package segment

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"strandline.dev/internal/record"
)

const resetSuffix = ".reset"

// Reset goes through states that recovery tells apart by names alone:
//
//  1. The snapshot is saved. The old log does not reach its index, or reaches
//     it with the same state, so until step 2 it changes nothing.
//  2. The new first segment is made under a name of its own. If that name is
//     found after a crash, recovery goes on from here.
//  3. The old segments are removed.
//  4. The new segment gets its name.
func (s *Store) Reset(index, term uint64, start record.Offset, hs HardState, snapshot []byte) error {
	if err := s.failed(); err != nil {
		return err
	}
	if err := s.reset(index, term, start, hs, snapshot); err != nil {
		return s.fail(fmt.Errorf("reset to entry %d: %w", index, err))
	}
	return nil
}

func (s *Store) reset(index, term uint64, start record.Offset, hs HardState, snapshot []byte) error {
	if err := s.SaveSnapshot(index, term, snapshot); err != nil {
		return err
	}
	s.mu.Lock()
	s.hard = hs
	old := s.segments
	s.mu.Unlock()
	active := s.active
	begun, err := s.begin(&header{
		ordinal: active.ordinal + 1, first: index + 1, termBefore: term, start: start,
	}, resetSuffix)
	if err != nil {
		return err
	}
	paths := make([]string, len(old))
	for i, seg := range old {
		paths[i] = seg.path
	}
	if begun.path, err = s.replaceBy(begun.path, paths); err != nil {
		return errors.Join(err, begun.file.Close())
	}
	s.mu.Lock()
	for _, seg := range old {
		seg.gone, seg.removed = true, true
	}
	s.segments, s.live = nil, nil
	s.activate(begun)
	s.mu.Unlock()
	return s.release(active)
}

// replaceBy removes the segments and gives the reset file its name as one.
func (s *Store) replaceBy(reset string, segments []string) (name string, err error) {
	for _, path := range segments {
		if err := s.fs.Remove(path); err != nil {
			return reset, err
		}
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return reset, err
	}
	name = strings.TrimSuffix(reset, resetSuffix) + ".seg"
	if err := s.fs.Rename(reset, name); err != nil {
		return reset, err
	}
	return name, s.fs.SyncDir(s.dir)
}

// finishReset goes on where a crash interrupted Reset.
func (s *Store) finishReset(found *files) error {
	paths := make([]string, len(found.segments))
	for i, seg := range found.segments {
		paths[i] = seg.path
	}
	_, err := s.replaceBy(filepath.Join(s.dir, found.resets[0]), paths)
	if err != nil {
		return fmt.Errorf("finish reset: %w", err)
	}
	s.options.Logger.Info("finished an interrupted reset", "file", found.resets[0])
	return nil
}
