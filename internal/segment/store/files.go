package store

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/vfs"
)

const GivenName = "given" + vfs.TemporarySuffix

// Files are the names in a log's directory.
type Files struct {
	dir       *Dir
	all       []string
	Segments  []*Segment // by ordinal
	Snapshots []uint64   // rising
	spares    []vfs.FileInfo
	resets    []*Segment
	repairs   []*Segment
	begins    []*Segment // marks, see BeginMark
	Begin     *Segment   // ordinal and first index of the segment that the log begins with; nil: not known
	Aside     []string
	Foreign   []ForeignFile
	Temporary []string
}

// List returns the files of the log, without foreign files, and learns whose log it is.
func (d *Dir) List() (*Files, error) {
	found, err := d.listed()
	if err != nil {
		return nil, err
	}
	if err := found.findOwner(); err != nil {
		return nil, err
	}
	return found, found.leaveForeign()
}

// listed sorts the names in the directory.
func (d *Dir) listed() (*Files, error) {
	infos, err := d.FS.List(d.Path)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d.Path, err)
	}
	found := &Files{dir: d}
	for _, info := range infos {
		found.all = append(found.all, info.Name)
		stem, suffix, _ := strings.Cut(info.Name, ".")
		switch suffix {
		case "seg":
			if seg, ok := parseSegmentName(stem); ok {
				seg.Path, seg.Size = filepath.Join(d.Path, info.Name), info.Size
				seg.filled.Store(info.Size)
				found.Segments = append(found.Segments, seg)
			}
		case "snap":
			if index, err := strconv.ParseUint(stem, 10, 64); err == nil && len(stem) == 20 {
				found.Snapshots = append(found.Snapshots, index)
			}
		case "spare":
			if _, err := strconv.ParseUint(stem, 10, 64); err == nil && len(stem) == 20 {
				found.spares = append(found.spares, info)
			}
		case "reset":
			if seg, ok := parseSegmentName(stem); ok {
				seg.Path = filepath.Join(d.Path, info.Name)
				found.resets = append(found.resets, seg)
			}
		case "repair":
			if seg, ok := parseSegmentName(stem); ok {
				seg.Path, seg.Size = filepath.Join(d.Path, info.Name), info.Size
				found.repairs = append(found.repairs, seg)
			}
		case "begin":
			if seg, ok := parseSegmentName(stem); ok {
				seg.Path = filepath.Join(d.Path, info.Name)
				found.begins = append(found.begins, seg)
			}
		case "snap.tmp", "repair.tmp", "begin.tmp":
			found.Temporary = append(found.Temporary, info.Name)
		}
		if info.Name == GivenName || info.Name == watermarkName+vfs.TemporarySuffix {
			found.Temporary = append(found.Temporary, info.Name)
		}
		if strings.HasSuffix(info.Name, badSuffix) {
			found.Aside = append(found.Aside, info.Name)
		}
	}
	slices.SortFunc(found.Segments, func(a, b *Segment) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.First, b.First))
	})
	slices.Sort(found.Snapshots)
	return found, nil
}

func parseSegmentName(stem string) (*Segment, bool) {
	ordinal, first, ok := strings.Cut(stem, "-")
	if !ok || len(ordinal) != 20 || len(first) != 20 {
		return nil, false
	}
	o, err := strconv.ParseUint(ordinal, 10, 64)
	if err != nil {
		return nil, false
	}
	f, err := strconv.ParseUint(first, 10, 64)
	if err != nil || f == 0 {
		return nil, false
	}
	return &Segment{Ordinal: o, First: f}, true
}

// findOwner makes the owner that the newest readable segment names that of the
// log, if it is not known whose log this is.
func (f *Files) findOwner() error {
	if f.dir.Options.Owner != (segment.Owner{}) {
		return nil
	}
	for _, seg := range slices.Backward(slices.Concat(f.Segments, f.resets)) {
		h, err := f.dir.peek(seg)
		if err == nil {
			f.dir.Options.Owner = h.Owner
			return nil
		}
		if !errors.As(err, new(*segment.CorruptError)) {
			return err
		}
	}
	return nil
}

// AsCreated reports whether the log begins with the segment that Create made. It has
// all its entries then, and the state before them is that of every new log.
func (f *Files) AsCreated() bool {
	if f.Begin != nil {
		return f.Begin.Ordinal == 1
	}
	return f.Segments[0].Ordinal == 1
}

// Unfinished lists the files of swaps under way.
func (f *Files) Unfinished() []string {
	var names []string
	for _, seg := range slices.Concat(f.resets, f.repairs) {
		names = append(names, filepath.Base(seg.Path))
	}
	return names
}

// SnapshotPath is where the snapshot of an entry is, or will be found.
func (f *Files) SnapshotPath(index uint64) string {
	path := f.dir.SnapshotPath(index)
	if temporary := filepath.Base(path) + vfs.TemporarySuffix; len(f.resets) > 0 && slices.Contains(f.Temporary, temporary) {
		return path + vfs.TemporarySuffix
	}
	return path
}
