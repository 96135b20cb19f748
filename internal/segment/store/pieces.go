package store

import (
	"fmt"
	"io"

	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// PieceBytes are read at once where everything is read.
const PieceBytes = 1 << 20

// sector is what a disk loses at once, or less: bytes.
const sector = 512

// pieces reads a segment file for a walker.
type pieces struct {
	file   vfs.File
	path   string
	holes  bool // what cannot be read counts as zeros
	buffer []byte
}

// NewWalker returns a walker over the frames of a segment file up to end. If it is
// known that the segment ends there, and not only the file, then what the disk cannot
// read counts as zeros, which are no frames: elsewhere the log would seem to end there.
func NewWalker(file vfs.File, path string, salt uint64, end int64, known bool) *format.Walker {
	p := &pieces{file: file, path: path, holes: known}
	return &format.Walker{Salt: salt, End: end, EndUnknown: !known, Read: p.read}
}

func (p *pieces) read(position, least, most int64) ([]byte, error) {
	want := min(max(least, PieceBytes), most)
	if int64(cap(p.buffer)) < want {
		p.buffer = make([]byte, want)
	}
	b := p.buffer[:want]
	n, err := p.file.ReadAt(b, position)
	switch {
	case p.holes && vfs.Unreadable(err):
		return b, p.readAround(b, position)
	case err != nil && err != io.EOF:
		return nil, fmt.Errorf("scan %s: %w", p.path, err)
	}
	return b[:n], err
}

// readAround fills b with what can be read from position on.
func (p *pieces) readAround(b []byte, position int64) error {
	for len(b) > 0 {
		piece := b[:min(sector-position%sector, int64(len(b)))]
		_, err := p.file.ReadAt(piece, position)
		b, position = b[len(piece):], position+int64(len(piece))
		switch {
		case vfs.Unreadable(err):
			clear(piece)
		case err != nil && err != io.EOF:
			return fmt.Errorf("scan %s: %w", p.path, err)
		}
	}
	return nil
}
