package store

import (
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// scan reads the frames of a segment in file order and adds them up.
//
// A frame is bad if its header or payload does not match its checksum, if it
// does not name the frame before it, or if there is none. The scan stops at
// the first bad frame, with the reason in Bad.
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

// scanFile scans up to end, see NewWalker. Its error is one of reading; bad frames are a result.
func scanFile(file vfs.File, path string, h *format.Header, end int64, known bool) (*scan, error) {
	s := &scan{
		Walker: NewWalker(file, path, h.Salt, end, known), file: file, path: path, header: h,
		index: format.NewIndex(h), hard: h.Hard, before: h.Link(), vouched: format.HeaderSize, marked: format.HeaderSize,
	}
	return s, s.run()
}

func (s *scan) run() error {
	for s.MoveTo(format.HeaderSize); s.Next(); {
		h := &s.Frame
		payload, ok := s.Payload()
		if !ok {
			break
		}
		if h.Before != s.before {
			s.Reject("frame follows one with CRC %08x, not %08x", h.Before, s.before)
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

// take adds a valid frame up.
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
