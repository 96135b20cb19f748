package store

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/vfs"
)

// GivenName is the file of entries that a repair was given.
const GivenName = "given" + vfs.TemporarySuffix

// Files is the list of the names in a log's directory.
type Files struct {
	dir       *Dir
	all       []string
	Segments  []*Segment // by ordinal
	Snapshots []uint64   // in ascending order
	spares    []vfs.FileInfo
	resets    []*Segment
	repairs   []*Segment
	begins    []*Segment // marks, see BeginMark
	Begin     *Segment   // ordinal and first index of the segment that the log begins with; nil if unknown
	Aside     []string
	Foreign   []ForeignFile
	Temporary []string
}

// List returns the files of the log, with foreign files listed apart, and determines the owner of
// the log if it is not known.
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

// listed classifies the names in the directory.
func (d *Dir) listed() (*Files, error) {
	infos, err := d.FS.List(d.Path)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d.Path, err)
	}
	found := &Files{dir: d}
	segments := map[string]*[]*Segment{"seg": &found.Segments, "reset": &found.resets, "repair": &found.repairs, "begin": &found.begins}
	summaries := map[string]bool{} // by their segments' names
	for _, info := range infos {
		found.all = append(found.all, info.Name)
		stem, suffix, _ := strings.Cut(info.Name, ".")
		number, numbered := parseNumber(stem)
		switch list := segments[suffix]; {
		case list != nil:
			if seg, ok := parseSegmentName(stem); ok {
				seg.Path, seg.Size = filepath.Join(d.Path, info.Name), info.Size
				seg.filled.Store(info.Size)
				*list = append(*list, seg)
			}
		case suffix == "keys":
			if _, ok := parseSegmentName(stem); ok {
				summaries[stem] = true
			}
		case suffix == "snap" && numbered:
			found.Snapshots = append(found.Snapshots, number)
		case suffix == "spare" && numbered:
			found.spares = append(found.spares, info)
		case suffix == "snap.tmp", suffix == "repair.tmp", suffix == "begin.tmp":
			found.Temporary = append(found.Temporary, info.Name)
		}
		if info.Name == GivenName || info.Name == watermarkName+vfs.TemporarySuffix {
			found.Temporary = append(found.Temporary, info.Name)
		}
		if strings.HasSuffix(info.Name, badSuffix) {
			found.Aside = append(found.Aside, info.Name)
		}
	}
	for _, seg := range found.Segments {
		if name := SegmentName(seg.Ordinal, seg.First); summaries[name] {
			seg.summarized.Store(true)
			delete(summaries, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(summaries)) {
		found.Temporary = append(found.Temporary, name+keysSuffix)
	}
	slices.SortFunc(found.Segments, func(a, b *Segment) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.First, b.First))
	})
	slices.Sort(found.Snapshots)
	return found, nil
}

func parseSegmentName(stem string) (*Segment, bool) {
	ordinal, first, _ := strings.Cut(stem, "-")
	o, ok := parseNumber(ordinal)
	f, valid := parseNumber(first)
	return &Segment{Ordinal: o, First: f}, ok && valid && f > 0
}

// parseNumber parses a number of 20 digits.
func parseNumber(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && len(s) == 20
}

// findOwner sets the owner of the log to the one that the newest readable segment names, if it is
// not known.
func (f *Files) findOwner() error {
	if f.dir.Options.Owner != (segment.Owner{}) {
		return nil
	}
	for _, seg := range slices.Backward(slices.Concat(f.Segments, f.resets)) {
		h, err := f.dir.peek(seg)
		if err == nil && h.Owner != (segment.Owner{}) { // writing the zero value would race in an open log
			f.dir.Options.Owner = h.Owner
		}
		if err == nil {
			return nil
		}
		if !errors.As(err, new(*segment.CorruptError)) {
			return err
		}
	}
	return nil
}

// AsCreated reports whether the log begins with the segment that Create made. It has all its
// entries then, and the state before them is that of every new log.
func (f *Files) AsCreated() bool {
	if f.Begin != nil {
		return f.Begin.Ordinal == 1
	}
	return f.Segments[0].Ordinal == 1
}

// Unfinished returns the names of the files of an interrupted Reset or repair.
func (f *Files) Unfinished() []string {
	var names []string
	for _, seg := range slices.Concat(f.resets, f.repairs) {
		names = append(names, filepath.Base(seg.Path))
	}
	return names
}

// SnapshotPath returns the path of the snapshot of an entry. If a Reset is interrupted, that is
// the temporary name of its snapshot.
func (f *Files) SnapshotPath(index uint64) string {
	path := f.dir.SnapshotPath(index)
	if temporary := filepath.Base(path) + vfs.TemporarySuffix; len(f.resets) > 0 && slices.Contains(f.Temporary, temporary) {
		return path + vfs.TemporarySuffix
	}
	return path
}
