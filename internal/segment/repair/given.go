package repair

import (
	"errors"
	"fmt"
	"path/filepath"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// givenFile stores the entries that were given, as frames, until the new segments are written. It
// is removed with the Repairer.
type givenFile struct {
	dir      *store.Dir
	source   *source
	file     vfs.File
	position int64
	newest   uint64 // index of the entry that was added last
	entries  uint64
	bytes    int64
}

func (g *givenFile) init(d *store.Dir) {
	g.dir, g.source = d, &source{path: filepath.Join(d.Path, store.GivenName), salt: 1}
}

// add appends the frame of f and returns its position.
func (g *givenFile) add(f *segment.Entry) (int64, error) {
	if g.file == nil {
		var err error
		if g.file, err = g.dir.FS.Create(g.source.path); err != nil {
			return 0, fmt.Errorf("keep what was given: %w", err)
		}
	}
	h := format.EntryHeader(f)
	h.Salt = g.source.salt
	b := make([]byte, h.Size())
	h.Encode(b, g.position)
	copy(b[format.FrameHeaderSize:], f.Payload)
	if _, err := g.file.WriteAt(b, g.position); err != nil {
		return 0, fmt.Errorf("keep what was given: %w", err)
	}
	position := g.position
	g.position += h.Size()
	g.newest = f.Index
	g.entries++
	g.bytes += int64(len(f.Payload))
	return position, nil
}

func (g *givenFile) close() error {
	if g.file == nil {
		return nil
	}
	file := g.file
	g.file = nil
	return errors.Join(file.Close(), g.dir.FS.Remove(g.source.path))
}
