package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"strandline.dev/internal/segment"
)

// names records that a segment was renamed from a spare and that the directory has not been
// synced since. That sync commits the file system's journal with everything in it, so the filler
// does it and not the writer. The writer does not wait for it either: a spare whose header says
// that it follows the newest segment is that segment, whatever its name is after a crash.
type names struct {
	*Dir
	mu   sync.Mutex // held during the sync
	owed bool
}

func (n *names) owe() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owed = true
}

// sync makes the name of the newest segment durable and reports whether that was necessary.
func (n *names) sync() (synced bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.owed {
		return false, nil
	}
	if err := n.SyncDir(); err != nil {
		return false, fmt.Errorf("sync the directory of a segment: %w", err)
	}
	n.owed = false
	return true, nil
}

// followingSpare returns the spare that is the segment behind the newest one, if a crash lost its
// new name; nil if there is none. The result has the ordinal and first index of its final name
// and the path of the spare. A recycled file still has the header of its earlier use, whose
// ordinal is lower; a file of another log is not accepted.
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

// adoptBegun renames a segment whose name a crash lost, and reports whether there was one. The
// header is written again: after a failed sync it may be in the page cache only, see
// recovery.makeDurable.
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
