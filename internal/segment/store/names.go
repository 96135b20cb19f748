package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"strandline.dev/internal/segment"
)

// names remembers that a segment was renamed from a spare and the directory was
// not synced since. That sync commits the file system's journal, with whatever
// else is in it, so the writer leaves it to the filler. It does not wait for it
// either: a spare whose header says that it follows the newest segment is that
// segment, whatever its name is after a crash.
type names struct {
	*Dir
	mu   sync.Mutex // held over the sync
	owed bool
}

func (n *names) owe() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owed = true
}

// sync makes the name of the newest segment durable and reports whether it
// had to.
func (n *names) sync() (synced bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.owed {
		return false, nil
	}
	if err := n.SyncDir(); err != nil {
		return false, fmt.Errorf("sync the name of a segment: %w", err)
	}
	n.owed = false
	return true, nil
}

// followingSpare returns the spare that is the segment which follows the newest, if its
// new name was lost in a crash; nil if there is none. Its name is what it is to
// be, its path where it is. A recycled file still has the header of its earlier
// life, with an ordinal below those that are kept; a file of another log is none.
func (f *Files) followingSpare() (*Segment, error) {
	if len(f.Segments) == 0 {
		return nil, nil
	}
	newest := f.Segments[len(f.Segments)-1].Ordinal
	for _, info := range f.spares {
		path := filepath.Join(f.dir.Path, info.Name)
		h, err := f.dir.withFile(&Segment{Path: path}, readHeader)
		if err != nil && !errors.As(err, new(*segment.CorruptError)) {
			return nil, err
		}
		if err == nil && h.Follows() && h.Ordinal == newest+1 && f.dir.Options.Owner.Mismatch(h.Owner) == nil {
			return &Segment{Ordinal: h.Ordinal, First: h.First, Path: path, Size: info.Size, header: h}, nil
		}
	}
	return nil, nil
}

// adoptBegun gives a segment the name that a crash took from it, and reports
// whether there was one. The header is written once more: after a failed sync it
// may be in the page cache only, see recovery.makeDurable.
func (f *Files) adoptBegun() (bool, error) {
	seg, err := f.followingSpare()
	if err != nil || seg == nil {
		return false, err
	}
	name := filepath.Join(f.dir.Path, SegmentName(seg.Ordinal, seg.First)+".seg")
	if err := f.dir.renewHeader(seg); err != nil {
		return false, fmt.Errorf("name a segment again: %w", err)
	}
	if err := f.dir.FS.Rename(seg.Path, name); err != nil {
		return false, fmt.Errorf("name a segment again: %w", err)
	}
	return true, f.dir.SyncDir()
}

func (d *Dir) renewHeader(seg *Segment) error {
	file, err := d.FS.Open(seg.Path)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(seg.header.Encode(), 0); err == nil {
		err = file.Datasync()
	}
	return errors.Join(err, file.Close())
}
