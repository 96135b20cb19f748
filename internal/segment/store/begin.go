package store

import (
	"fmt"
	"path/filepath"
	"sync"

	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// BeginMark is the file <ordinal>-<first index>.begin. The log begins with the segment of that
// ordinal. Trim renames the file before it removes an older segment. So a segment with a lower
// ordinal was trimmed, and a crash restored its name; and a segment that is not there from that
// ordinal on is missing.
//
// The file contains the owner of the log.
//
// A log that has lost its mark gets a new one with the next Trim. Until then a missing first
// segment is not noticed.
type BeginMark struct {
	dir     *Dir
	mu      sync.Mutex
	ordinal uint64
	path    string // "": there is none
}

const beginSuffix = ".begin"

// chooseBegin selects the highest of the marks of this log: a crash may restore the name of an
// earlier one.
func (f *Files) chooseBegin() error {
	f.Begin = nil
	for _, seg := range f.begins {
		b, err := f.dir.FS.ReadFile(seg.Path)
		if err != nil && !vfs.Unreadable(err) {
			return fmt.Errorf("read the begin mark: %w", err)
		}
		if err == nil {
			err = format.CheckBegin(b, f.dir.Options.Owner)
		}
		if err != nil {
			f.Foreign = append(f.Foreign, ForeignFile{seg.Path, err})
			continue
		}
		if f.Begin == nil || f.Begin.Ordinal < seg.Ordinal {
			f.Begin, seg = seg, f.Begin
		}
		if seg != nil {
			f.Temporary = append(f.Temporary, filepath.Base(seg.Path))
		}
	}
	return nil
}

// SegmentName returns the file name of a segment, without its suffix.
func SegmentName(ordinal, first uint64) string { return fmt.Sprintf("%020d-%020d", ordinal, first) }

// Adopt adopts the mark that was found.
func (b *BeginMark) Adopt(found *Files) {
	if mark := found.Begin; mark != nil {
		b.ordinal, b.path = mark.Ordinal, mark.Path
	}
}

// Move makes the log begin with the given segment. SyncDir makes that durable. A mark never moves
// to a lower ordinal.
func (b *BeginMark) Move(ordinal, first uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path != "" && b.ordinal >= ordinal {
		return nil
	}
	path := filepath.Join(b.dir.Path, SegmentName(ordinal, first)+beginSuffix)
	if b.path == "" {
		temporary := path + vfs.TemporarySuffix
		if err := vfs.WriteSynced(b.dir.FS, temporary, format.EncodeBegin(b.dir.Options.Owner)); err != nil {
			return fmt.Errorf("mark the begin of the log: %w", err)
		}
		if err := b.dir.FS.Rename(temporary, path); err != nil {
			return fmt.Errorf("mark the begin of the log: %w", err)
		}
	} else if err := b.dir.FS.Rename(b.path, path); err != nil {
		return fmt.Errorf("mark the begin of the log: %w", err)
	}
	b.ordinal, b.path = ordinal, path
	return nil
}
