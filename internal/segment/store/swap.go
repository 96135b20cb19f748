package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"strandline.dev/internal/vfs"
)

const (
	RepairSuffix = ".repair"
	badSuffix    = ".bad"
)

// finishSwaps ends what a crash interrupted, so that what is found after it are
// segments and snapshots only.
func (d *Dir) FinishSwaps(found *Files) (*Files, error) {
	if len(found.repairs) > 0 {
		if err := d.SwapRepairs(found); err != nil {
			return nil, fmt.Errorf("finish the repair: %w", err)
		}
		var err error
		if found, err = d.List(); err != nil {
			return nil, err
		}
	}
	if len(found.resets) > 0 {
		if err := d.finishReset(found); err != nil {
			return nil, err
		}
		return d.List()
	}
	if named, err := d.adoptBegun(found); err != nil {
		return nil, err
	} else if named {
		return d.List()
	}
	return found, nil
}

// swapRepairs puts segments that were made anew in the place of damaged ones. A
// file named .repair is complete and durable. The directory is synced between the
// steps, so no crash leaves two segments of an ordinal, or none and no .repair:
//
//  1. The .repair names are durable.
//  2. Segments of their ordinals are kept aside, as .bad.
//  3. The .repair files become segments.
func (d *Dir) SwapRepairs(found *Files) error {
	if err := d.SyncDir(); err != nil {
		return err
	}
	for _, seg := range found.Segments {
		if slices.ContainsFunc(found.repairs, func(m *Segment) bool { return m.Ordinal == seg.Ordinal }) {
			if err := d.SetAside(seg.Path); err != nil {
				return err
			}
		}
	}
	if err := d.SyncDir(); err != nil {
		return err
	}
	for _, m := range found.repairs {
		if err := d.FS.Rename(m.Path, strings.TrimSuffix(m.Path, RepairSuffix)+".seg"); err != nil {
			return err
		}
		d.Options.Logger.Info("a repaired segment is in place", "file", m.Path)
	}
	return d.SyncDir()
}

// setAside gives a damaged file a name that nothing reads, and that no file of
// an earlier damage has.
func (d *Dir) SetAside(path string) error {
	infos, err := d.FS.List(d.Path)
	if err != nil {
		return err
	}
	name, base := path+badSuffix, filepath.Base(path)
	taken := func(name string) bool {
		return slices.ContainsFunc(infos, func(i vfs.FileInfo) bool { return i.Name == filepath.Base(name) })
	}
	for n := 2; taken(name); n++ {
		name = filepath.Join(d.Path, fmt.Sprintf("%s.%d%s", base, n, badSuffix))
	}
	if err := d.FS.Rename(path, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// unfinished lists the files of swaps under way.
func (f *Files) Unfinished() []string {
	var names []string
	for _, seg := range slices.Concat(f.resets, f.repairs) {
		names = append(names, filepath.Base(seg.Path))
	}
	return names
}

// foresee makes f what it will be when finishSwaps is done.
func (d *Dir) Foresee(f *Files) error {
	f.Segments = slices.DeleteFunc(f.Segments, func(seg *Segment) bool {
		return slices.ContainsFunc(f.repairs, func(m *Segment) bool { return m.Ordinal == seg.Ordinal })
	})
	f.Segments = append(f.Segments, f.repairs...)
	if len(f.resets) > 0 {
		f.Segments, f.Begin = f.resets[:1], f.resets[0]
		f.Snapshots = []uint64{f.resets[0].First - 1}
	}
	slices.SortFunc(f.Segments, func(a, b *Segment) int {
		if a.Ordinal < b.Ordinal {
			return -1
		}
		return 1
	})
	begun, err := d.followingSpare(f)
	if begun != nil {
		f.Segments = append(f.Segments, begun)
	}
	return err
}

// snapshotPath is where the snapshot of an entry is, or will be found.
func (f *Files) SnapshotPath(d *Dir, index uint64) string {
	path := d.SnapshotPath(index)
	if temporary := filepath.Base(path) + vfs.TemporarySuffix; len(f.resets) > 0 && slices.Contains(f.Temporary, temporary) {
		return path + vfs.TemporarySuffix
	}
	return path
}
