package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

const snapshotsKept = 2

func (d *Dir) SnapshotPath(index uint64) string {
	return filepath.Join(d.Path, fmt.Sprintf("%020d.snap", index))
}

// SaveSnapshot does not touch the segments: an error leaves the log as it was
// and does not stop it.
func (s *Store) SaveSnapshot(index, term uint64, data []byte) error {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	return s.saveSnapshot(index, term, data)
}

func (s *Store) saveSnapshot(index, term uint64, data []byte) error {
	if err := s.failed(); err != nil {
		return err
	}
	if s.beginsAbove(index) {
		return nil
	}
	if err := vfs.WriteFileDurably(s.FS, s.SnapshotPath(index), format.EncodeSnapshot(s.Options.Owner, index, term, data)); err != nil {
		return err
	}
	s.mu.Lock()
	if at, found := slices.BinarySearch(s.snapshots, index); !found {
		s.snapshots = slices.Insert(s.snapshots, at, index)
	}
	s.mu.Unlock()
	return errors.Join(s.setRottenAside(index), s.dropSnapshots())
}

// setRottenAside is called when the snapshot saved is durable, which may have taken
// the place of a rotten one.
func (s *Store) setRottenAside(saved uint64) error {
	s.mu.Lock()
	rotten := slices.DeleteFunc(s.rotten, func(index uint64) bool { return index == saved })
	s.rotten = nil
	s.mu.Unlock()
	return s.setSnapshotsAside(rotten)
}

func (s *Store) setSnapshotsAside(snapshots []uint64) error {
	for _, index := range snapshots {
		s.forgetSnapshot(index)
		if err := s.SetAside(s.SnapshotPath(index)); err != nil {
			return fmt.Errorf("set a damaged snapshot aside: %w", err)
		}
	}
	if len(snapshots) == 0 {
		return nil
	}
	return s.SyncDir()
}

// beginsAbove reports whether nobody can go on from index, since the log begins
// further up: a snapshot that was taken before a Reset may be saved after it.
func (s *Store) beginsAbove(index uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.live) > 0 && index+1 < s.live[0].First
}

// dropSnapshots removes those that belong to no segment any more, except the
// newest.
func (s *Store) dropSnapshots() error {
	s.mu.Lock()
	first := uint64(0)
	if len(s.live) > 0 {
		first = s.live[0].First
	}
	extra := 0
	for extra < len(s.snapshots)-snapshotsKept && s.snapshots[extra]+1 < first {
		extra++
	}
	drop := slices.Clone(s.snapshots[:extra])
	s.snapshots = slices.Delete(s.snapshots, 0, extra)
	s.mu.Unlock()
	for _, old := range drop {
		if err := s.FS.Remove(s.SnapshotPath(old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an old snapshot: %w", err)
		}
	}
	return nil
}

func (s *Store) LoadBase() (index, term uint64, data []byte, err error) {
	if err := s.failed(); err != nil {
		return 0, 0, nil, err
	}
	for {
		s.mu.RLock()
		base := s.live[0].First - 1
		found := s.hasSnapshot(base)
		s.mu.RUnlock()
		if !found {
			return 0, 0, nil, segment.ErrNoSnapshot
		}
		term, data, err := s.ReadSnapshot(base)
		if errors.Is(err, fs.ErrNotExist) && s.FirstIndex()-1 != base {
			continue // recycled between the two steps
		}
		return base, term, data, err
	}
}

func (s *Store) LoadSnapshot() (index, term uint64, data []byte, err error) {
	if err := s.failed(); err != nil {
		return 0, 0, nil, err
	}
	s.mu.RLock()
	// From one below the first entry the log does not go on.
	reached, _ := slices.BinarySearch(s.snapshots, s.live[0].First-1)
	snapshots := slices.Clone(s.snapshots[reached:])
	s.mu.RUnlock()
	return s.newestSnapshot(snapshots)
}

// newestSnapshot reads the last valid one of snapshots. One that is not valid
// stays where it is, for people to look at.
func (d *Dir) newestSnapshot(snapshots []uint64) (index, term uint64, data []byte, err error) {
	for _, candidate := range slices.Backward(snapshots) {
		term, data, err := d.ReadSnapshot(candidate)
		switch {
		case err == nil:
			return candidate, term, data, nil
		case errors.As(err, new(*segment.CorruptError)):
			d.Options.Logger.Error("snapshot is corrupt, trying the one before", "error", err)
		case !errors.Is(err, fs.ErrNotExist):
			return 0, 0, nil, err
		}
	}
	return 0, 0, nil, segment.ErrNoSnapshot
}

// readSnapshot answers a *CorruptError for one that is not valid, or that the
// disk cannot read.
func (d *Dir) ReadSnapshot(index uint64) (term uint64, data []byte, err error) {
	term, data, _, err = d.ReadSnapshotAt(d.SnapshotPath(index), index)
	return term, data, err
}

// readSnapshotAt reads the snapshot of an entry in the file at path, and returns
// the size of the file too.
func (d *Dir) ReadSnapshotAt(path string, index uint64) (term uint64, data []byte, size int64, err error) {
	b, err := d.FS.ReadFile(path)
	switch {
	case vfs.Unreadable(err):
	case err != nil:
		return 0, nil, 0, fmt.Errorf("read snapshot: %w", err)
	default:
		term, data, err = format.ParseSnapshot(b, d.Options.Owner, index)
	}
	if err != nil {
		return 0, nil, int64(len(b)), &segment.CorruptError{File: path, FirstIndex: 1, LastIndex: index, Detail: err.Error()}
	}
	return term, data, int64(len(b)), nil
}
