package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

const (
	mendSuffix = ".mend"
	badSuffix  = ".bad"
)

// finishSwaps ends what a crash interrupted, so that what is found after it are
// segments and snapshots only.
func (s *Store) finishSwaps(found *files) (*files, error) {
	if len(found.mends) > 0 {
		if err := s.swapMends(found); err != nil {
			return nil, fmt.Errorf("finish mending: %w", err)
		}
		var err error
		if found, err = s.list(); err != nil {
			return nil, err
		}
	}
	if len(found.resets) > 0 {
		if err := s.finishReset(found); err != nil {
			return nil, err
		}
		return s.list()
	}
	if named, err := s.adoptBegun(found); err != nil {
		return nil, err
	} else if named {
		return s.list()
	}
	return found, nil
}

// swapMends puts segments that were made anew in the place of damaged ones. A
// file named .mend is complete and durable. The directory is synced between the
// steps, so no crash leaves two segments of an ordinal, or none and no .mend:
//
//  1. The .mend names are durable.
//  2. Segments of their ordinals are kept aside, as .bad.
//  3. The .mend files become segments.
func (s *Store) swapMends(found *files) error {
	if err := s.syncDir(); err != nil {
		return err
	}
	for _, seg := range found.segments {
		if slices.ContainsFunc(found.mends, func(m *segment) bool { return m.ordinal == seg.ordinal }) {
			if err := s.setAside(seg.path); err != nil {
				return err
			}
		}
	}
	if err := s.syncDir(); err != nil {
		return err
	}
	for _, m := range found.mends {
		if err := s.fs.Rename(m.path, strings.TrimSuffix(m.path, mendSuffix)+".seg"); err != nil {
			return err
		}
		s.options.Logger.Info("a mended segment is in place", "file", m.path)
	}
	return s.syncDir()
}

// setAside gives a damaged file a name that nothing reads, and that no file of
// an earlier damage has.
func (s *Store) setAside(path string) error {
	infos, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	name, base := path+badSuffix, filepath.Base(path)
	taken := func(name string) bool {
		return slices.ContainsFunc(infos, func(i FileInfo) bool { return i.Name == filepath.Base(name) })
	}
	for n := 2; taken(name); n++ {
		name = filepath.Join(s.dir, fmt.Sprintf("%s.%d%s", base, n, badSuffix))
	}
	if err := s.fs.Rename(path, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// unfinished lists the files of swaps under way.
func (f *files) unfinished() []string {
	var names []string
	for _, seg := range slices.Concat(f.resets, f.mends) {
		names = append(names, filepath.Base(seg.path))
	}
	return names
}

// foresee makes f what it will be when finishSwaps is done.
func (s *Store) foresee(f *files) error {
	f.segments = slices.DeleteFunc(f.segments, func(seg *segment) bool {
		return slices.ContainsFunc(f.mends, func(m *segment) bool { return m.ordinal == seg.ordinal })
	})
	f.segments = append(f.segments, f.mends...)
	if len(f.resets) > 0 {
		f.segments, f.begin = f.resets[:1], f.resets[0]
		f.snapshots = []uint64{f.resets[0].first - 1}
	}
	slices.SortFunc(f.segments, func(a, b *segment) int {
		if a.ordinal < b.ordinal {
			return -1
		}
		return 1
	})
	begun, err := s.followingSpare(f)
	if begun != nil {
		f.segments = append(f.segments, begun)
	}
	return err
}

// snapshotPath is where the snapshot of an entry is, or will be found.
func (f *files) snapshotPath(s *Store, index uint64) string {
	path := s.snapshotPath(index)
	if temporary := filepath.Base(path) + temporarySuffix; len(f.resets) > 0 && slices.Contains(f.temporary, temporary) {
		return path + temporarySuffix
	}
	return path
}
