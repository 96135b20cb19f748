package store

import (
	"fmt"
	"path/filepath"
	"sync"

	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// beginMark is the file <ordinal>-<first index>.begin: the log begins with the
// segment of that ordinal. Recycle renames it before a file below goes. So
// segments below it are what a crash brought back of those that were recycled,
// and one that is not there from it on is missing.
//
// Its content is the owner of the log.
//
// A log that has lost its mark gets another with the next Recycle. Until then a
// missing first segment goes unnoticed here.
type beginMark struct {
	mu      sync.Mutex
	ordinal uint64
	path    string // "": there is none
}

const beginSuffix = ".begin"

// chooseBegin takes the highest of the marks of this log: a crash may bring back
// the one before.
func (d *Dir) chooseBegin(found *Files) error {
	found.Begin = nil
	for _, seg := range found.begins {
		b, err := d.FS.ReadFile(seg.Path)
		if err != nil && !vfs.Unreadable(err) {
			return fmt.Errorf("read the mark of the begin: %w", err)
		}
		if err == nil {
			err = format.CheckBegin(b, d.Options.Owner)
		}
		if err != nil {
			found.Foreign = append(found.Foreign, ForeignFile{seg.Path, err})
			continue
		}
		if found.Begin == nil || found.Begin.Ordinal < seg.Ordinal {
			found.Begin, seg = seg, found.Begin
		}
		if seg != nil {
			found.Temporary = append(found.Temporary, filepath.Base(seg.Path))
		}
	}
	return nil
}

// SegmentName returns the file name of a segment, without its suffix.
func SegmentName(ordinal, first uint64) string { return fmt.Sprintf("%020d-%020d", ordinal, first) }

// adoptBegin takes the mark that was found.
func (d *Dir) AdoptBegin(found *Files) {
	if b := found.Begin; b != nil {
		d.begun.ordinal, d.begun.path = b.Ordinal, b.Path
	}
}

// moveBegin makes the log begin with a segment; SyncDir makes it durable. It
// never moves down.
func (d *Dir) MoveBegin(ordinal, first uint64) error {
	b := &d.begun
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path != "" && b.ordinal >= ordinal {
		return nil
	}
	path := filepath.Join(d.Path, SegmentName(ordinal, first)+beginSuffix)
	if b.path == "" {
		if err := vfs.WriteFileDurably(d.FS, path, format.EncodeBegin(d.Options.Owner)); err != nil {
			return fmt.Errorf("mark the begin of the log: %w", err)
		}
	} else if err := d.FS.Rename(b.path, path); err != nil {
		return fmt.Errorf("mark the begin of the log: %w", err)
	}
	b.ordinal, b.path = ordinal, path
	return nil
}
