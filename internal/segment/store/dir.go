package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// Dir is the directory of a log, whether the log is open or damaged.
type Dir struct {
	FS      vfs.FS
	Path    string
	Options Options
	Begin   *BeginMark

	// held stays open while the log is open, so that a process that has run out of file descriptors
	// can continue to write. Without it each sync opens the directory.
	held struct {
		sync.Mutex
		directory vfs.Directory
	}
}

// NewDir returns the directory of a log.
func NewDir(disk vfs.FS, path string, o Options) *Dir {
	d := &Dir{FS: disk, Path: path, Options: o.withDefaults()}
	d.Begin = &BeginMark{dir: d}
	return d
}

// hold keeps the directory open until close.
func (d *Dir) hold() error {
	directory, err := d.FS.OpenDir(d.Path)
	if err != nil {
		return err
	}
	d.held.Lock()
	defer d.held.Unlock()
	d.held.directory = directory
	return nil
}

// SyncDir makes creations, renames and removals durable.
func (d *Dir) SyncDir() error {
	d.held.Lock()
	defer d.held.Unlock()
	if d.held.directory == nil {
		return d.FS.SyncDir(d.Path)
	}
	return d.held.directory.Sync()
}

func (d *Dir) close() error {
	d.held.Lock()
	defer d.held.Unlock()
	if d.held.directory == nil {
		return nil
	}
	directory := d.held.directory
	d.held.directory = nil
	return directory.Close()
}

// OpenHeader opens the file of seg, and reads and checks its header, which must be one of this
// log.
func (d *Dir) OpenHeader(seg *Segment) (*format.Header, error) {
	return d.withFile(seg, d.ReadHeader)
}

func (d *Dir) withFile(seg *Segment, read func(*Segment, vfs.File) (*format.Header, error)) (*format.Header, error) {
	file, err := d.FS.Open(seg.Path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	h, err := read(seg, file)
	return h, errors.Join(err, file.Close())
}

// ReadHeader reads and checks the header of seg's file, which must be one of this log.
func (d *Dir) ReadHeader(seg *Segment, file vfs.File) (*format.Header, error) {
	h, err := readHeader(seg, file)
	if err != nil {
		return nil, err
	}
	if err := d.Options.Owner.Mismatch(h.Owner); err != nil {
		return nil, headerCorrupt(seg, err)
	}
	if err := fits(h, seg); err != nil {
		return nil, err
	}
	return h, nil
}

// peek reads the header of a segment file, whichever log it belongs to.
func (d *Dir) peek(seg *Segment) (*format.Header, error) {
	h, err := d.withFile(seg, readHeader)
	if err == nil {
		err = fits(h, seg)
	}
	return h, err
}

// readHeader reads the header of seg's file, whichever log and name it is for.
func readHeader(seg *Segment, file vfs.File) (*format.Header, error) {
	b := make([]byte, format.HeaderSize)
	if n, err := file.ReadAt(b, 0); err == io.EOF {
		b = b[:n]
	} else if vfs.Unreadable(err) {
		return nil, headerCorrupt(seg, err)
	} else if err != nil {
		return nil, fmt.Errorf("read segment header: %w", err)
	}
	h, err := format.ParseHeader(b)
	if err != nil {
		return nil, headerCorrupt(seg, err)
	}
	return h, nil
}

// fits returns a *CorruptError if h is the header of another segment than the file's name says.
func fits(h *format.Header, seg *Segment) error {
	if h.Ordinal != seg.Ordinal || h.First != seg.First {
		return headerCorrupt(seg, fmt.Errorf("header of segment %d from entry %d", h.Ordinal, h.First))
	}
	return nil
}

func headerCorrupt(seg *Segment, reason error) error {
	return &segment.CorruptError{
		File: seg.Path, FirstIndex: seg.First, LastIndex: max(seg.end, seg.First+1) - 1, Detail: reason.Error(),
	}
}

// SetAside renames a damaged file to a name that nothing reads and that no earlier damaged file
// has.
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

// removeLeftover removes files that crashes left behind.
func (d *Dir) removeLeftover(segments []*Segment, temporary []string) error {
	if len(segments) == 0 && len(temporary) == 0 {
		return nil
	}
	for _, seg := range segments {
		temporary = append(temporary, filepath.Base(seg.Path))
	}
	for _, name := range temporary {
		if err := d.FS.Remove(filepath.Join(d.Path, name)); err != nil {
			return fmt.Errorf("remove files left by a crash: %w", err)
		}
	}
	return d.SyncDir()
}
