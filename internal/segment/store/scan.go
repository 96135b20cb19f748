package store

import (
	"fmt"
	"io"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// scan reads the frames of a segment in file order and builds the segment's index.
//
// A frame is bad if its header or payload does not match its checksum, if it does not name the
// frame before it, or if it is not there. The scan stops at the first bad frame, with the reason
// in Bad.
type scan struct {
	*format.Walker
	file   vfs.File
	path   string
	header *format.Header

	index   *format.Index
	hard    segment.HardState
	before  uint32 // header CRC of the last valid frame
	vouched int64  // highest synced-through of the valid frames
	marked  int64  // position behind the last sync mark
}

// scanFile scans up to end, see NewWalker. It returns an error if the file cannot be read; a bad
// frame is reported in the result.
func scanFile(file vfs.File, path string, h *format.Header, end int64, known bool) (*scan, error) {
	s := newScan(file, path, h, end, known)
	return s, s.run()
}

func newScan(file vfs.File, path string, h *format.Header, end int64, known bool) *scan {
	return &scan{
		Walker: NewWalker(file, path, h.Salt, end, known), file: file, path: path, header: h,
		index: format.NewIndex(h), hard: h.Hard, before: h.Link(), vouched: format.HeaderSize, marked: format.HeaderSize,
	}
}

func (s *scan) run() error {
	for s.MoveTo(format.HeaderSize); s.Next(); {
		h := &s.Frame
		payload, ok := s.Payload()
		if !ok {
			break
		}
		if h.Before != s.before {
			s.Reject("the frame follows one with CRC %08x, not %08x", h.Before, s.before)
			break
		}
		if err := s.take(h, payload); err != nil {
			return err
		}
		if s.Bad != nil {
			break
		}
		s.before = h.HeaderCRC
		s.vouched = max(s.vouched, h.Synced)
		if h.Kind == format.MarkFrame {
			s.marked = s.Position + h.Size()
		}
	}
	return s.Err
}

// take adds a valid frame to the result.
func (s *scan) take(h *format.FrameHeader, payload []byte) error {
	switch h.Kind {
	case format.EntryFrame:
		if h.Index < s.header.First || h.Index > s.index.Next {
			s.Reject("entry %d does not follow [%d, %d)", h.Index, s.header.First, s.index.Next)
			return nil
		}
		if h.Index < s.index.Next {
			before := func(p *format.Point) bool { return p.Index < h.Index }
			from, after, limit, ok := s.index.Bracket(before)
			if ok {
				var err error
				if after, err = seek(s.file, s.path, s.Salt, from, after, limit, before); err != nil {
					return err
				}
			}
			s.index.Cut(after)
		}
		s.index.Add(h, s.Position)
	case format.HardStateFrame, format.MarkFrame:
		hard, err := format.ParseHardState(payload)
		if err != nil {
			s.Bad = err
			return nil
		}
		s.hard = hard
	}
	return nil
}

// PieceBytes is how many bytes are read at once when a whole file is read.
const PieceBytes = 1 << 20

// sector is the size in bytes of what a disk loses at once, or a multiple of it.
const sector = 512

// pieces reads a segment file for a walker.
type pieces struct {
	file   vfs.File
	path   string
	holes  bool // unreadable sectors count as zeros
	buffer []byte
}

// NewWalker returns a walker over the frames of a segment file up to end. known reports whether
// the segment, and not only the file, ends there. If it does, unreadable sectors count as zeros,
// which are not frames; otherwise the log would seem to end at them.
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

// readAround fills b with the bytes that can be read from position on, and zeros for the rest.
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

// corruptFrame returns the error for the bad frame at position, where the entry index should be.
// The damage extends to the next valid frame header in front of limit, or else to the entry
// reach, exclusive.
func corruptFrame(file vfs.File, path string, salt uint64, position, limit int64, index, reach uint64, reason error) *segment.CorruptError {
	e := &segment.CorruptError{
		File: path, Position: position, FirstIndex: index, LastIndex: max(reach, index+1) - 1, Detail: reason.Error(),
	}
	w := NewWalker(file, path, salt, limit, true)
	w.EndUnknown = true
	if w.MoveTo(position); w.Next() {
		// The header is valid. An entry with a higher index shows that the entries in between were lost
		// before it.
		switch {
		case w.Frame.Kind != format.EntryFrame:
			e.FirstIndex, e.LastIndex = 0, 0
		case w.Frame.Index == index:
			e.LastIndex = index
		case w.Frame.Index > index:
			e.LastIndex = w.Frame.Index - 1
		}
		return e
	}
	for at := position; w.Search(at + format.FrameAlignment); at = w.Position {
		if w.Frame.Kind == format.EntryFrame {
			if w.Frame.Index > index {
				e.LastIndex = min(e.LastIndex, w.Frame.Index-1)
			}
			return e
		}
	}
	return e // a failed read finds no further frame
}
