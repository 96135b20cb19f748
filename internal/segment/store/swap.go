package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	RepairSuffix = ".repair"
	badSuffix    = ".bad"
)

// FinishSwaps completes repairs and a Reset that a crash interrupted, and returns the files as
// they are then.
func (f *Files) FinishSwaps() (*Files, error) {
	d := f.dir
	if len(f.repairs) > 0 {
		if err := f.SwapRepairs(); err != nil {
			return nil, fmt.Errorf("finish the repair: %w", err)
		}
		var err error
		if f, err = d.List(); err != nil {
			return nil, err
		}
	}
	if len(f.resets) > 0 {
		if err := f.finishReset(); err != nil {
			return nil, err
		}
		return d.List()
	}
	if named, err := f.adoptBegun(); err != nil {
		return nil, err
	} else if named {
		return d.List()
	}
	return f, nil
}

// SwapRepairs replaces damaged segments with rewritten ones. A file named .repair is complete and
// durable. The directory is synced between the steps, so a crash never leaves two segments of an
// ordinal, or neither a segment nor a .repair file:
//
//  1. The .repair names are durable.
//  2. Segments of their ordinals are kept aside, as .bad.
//  3. The .repair files become segments.
func (f *Files) SwapRepairs() error {
	if err := f.dir.SyncDir(); err != nil {
		return err
	}
	for _, seg := range f.Segments {
		if slices.ContainsFunc(f.repairs, func(m *Segment) bool { return m.Ordinal == seg.Ordinal }) {
			if err := f.dir.SetAside(seg.Path); err != nil {
				return err
			}
		}
	}
	if err := f.dir.SyncDir(); err != nil {
		return err
	}
	for _, m := range f.repairs {
		if err := f.dir.FS.Rename(m.Path, strings.TrimSuffix(m.Path, RepairSuffix)+".seg"); err != nil {
			return err
		}
		f.dir.Options.Logger.Info("a repaired segment is in place", "file", m.Path)
	}
	return f.dir.SyncDir()
}

// Foresee changes f to the files that FinishSwaps would leave, without changing the disk.
func (f *Files) Foresee() error {
	f.Segments = slices.DeleteFunc(f.Segments, func(seg *Segment) bool {
		return slices.ContainsFunc(f.repairs, func(m *Segment) bool { return m.Ordinal == seg.Ordinal })
	})
	f.Segments = append(f.Segments, f.repairs...)
	if len(f.resets) > 0 {
		f.Segments, f.Begin = f.resets[:1], f.resets[0]
		f.Snapshots = []uint64{f.resets[0].First - 1}
	}
	slices.SortFunc(f.Segments, func(a, b *Segment) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	begun, err := f.followingSpare()
	if begun != nil {
		f.Segments = append(f.Segments, begun)
	}
	return err
}

// foreseen returns the files that FinishSwaps would leave, under the names that they have now.
func (f *Files) foreseen() (*Files, error) {
	if len(f.resets) > 0 {
		return nil, errors.New("a snapshot of the leader has not finished replacing the log: start the node, which completes the replacement, and stop it again")
	}
	return f, f.Foresee()
}
