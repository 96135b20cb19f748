package store

import (
	"errors"
	"fmt"
	"io"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// Scanner reads the frames of a segment in file order and adds them up.
//
// A frame is bad if its header or payload does not match its checksum, if it
// does not name the frame before it, or if there is none. The scan stops at
// the first bad frame, at position P, and it remains to tell why it is bad:
//
//	behind P                                      then P is
//	a valid frame that was built when P was       corrupt: those bytes were durable, and
//	  durable (synced-through > P)                  what is there now was not written
//	valid frames, none of which vouches for P     torn: they belong to writes that were
//	                                                never synced, and reached the disk in part
//	no valid frame, but the salt at P             torn, likewise
//	anything else                                 the end of what was written
//
// What lies behind P without being a valid frame of this segment says
// nothing: zeros, stale frames of a recycled file, payload without a header.
//
// A flipped bit in the frames of the last sync, with nothing written since,
// looks like a torn tail. The sync mark shrinks that window.
type Scanner struct {
	File   vfs.File
	Path   string
	Header *format.Header
	Size   int64 // where to stop at the latest
	// holes: what the disk cannot read counts as zeros, which are no frames. Only
	// where the end of the segment is known: elsewhere the log would seem to end
	// there.
	Holes bool

	buffer []byte // holds the file from bufferAt on
	start  int64

	// Results of scan.
	index    *format.Index
	hard     segment.HardState
	Position int64  // behind the last valid frame
	before   uint32 // header CRC of the last valid frame
	vouched  int64  // highest synced-through of the valid frames
	marked   int64  // position behind the last sync mark
	bad      error  // why the frame at position is bad; nil if size was reached

	// Results of lookBehind.
	torn      bool
	corrupt   bool
	lastIndex uint64 // highest index of an entry behind the bad frame
}

const ScanChunk = 1 << 20

// bytes returns n bytes at position, valid until the next call. io.EOF if they
// do not all lie in front of size.
func (s *Scanner) Bytes(position, n int64) ([]byte, error) {
	if position+n > s.Size {
		return nil, io.EOF
	}
	if at := position - s.start; at >= 0 && at+n <= int64(len(s.buffer)) {
		return s.buffer[at : at+n], nil
	}
	want := min(max(n, ScanChunk), s.Size-position)
	if int64(cap(s.buffer)) < want {
		s.buffer = make([]byte, want)
	}
	s.buffer, s.start = s.buffer[:want], position
	if got, err := s.File.ReadAt(s.buffer, position); err == io.EOF {
		// Shorter than size: what lies in front of its end is there all the same.
		if s.buffer = s.buffer[:got]; int64(got) < n {
			return nil, err
		}
	} else if s.Holes && vfs.Unreadable(err) {
		if err := s.readAround(position); err != nil {
			return nil, err
		}
	} else if err != nil {
		s.buffer = s.buffer[:0]
		return nil, fmt.Errorf("scan %s: %w", s.Path, err)
	}
	return s.buffer[:n], nil
}

// sector is what a disk loses at once, or less: bytes.
const sector = 512

// readAround fills the buffer from position on with what can be read.
func (s *Scanner) readAround(position int64) error {
	for rest := s.buffer; len(rest) > 0; {
		piece := rest[:min(sector-position%sector, int64(len(rest)))]
		_, err := s.File.ReadAt(piece, position)
		rest, position = rest[len(piece):], position+int64(len(piece))
		switch {
		case vfs.Unreadable(err):
			clear(piece)
		case err != nil && err != io.EOF:
			s.buffer = s.buffer[:0]
			return fmt.Errorf("scan %s: %w", s.Path, err)
		}
	}
	return nil
}

// scan adds up the frames. Its error is one of reading; bad frames are a
// result.
func (s *Scanner) scan() error {
	s.index, s.hard = format.NewIndex(s.Header), s.Header.Hard
	s.Position, s.before, s.vouched, s.marked = format.HeaderSize, s.Header.Link(), format.HeaderSize, format.HeaderSize
	for s.Position < s.Size {
		h, payload, err := s.frame(s.Position)
		if err == nil && h.Before != s.before {
			err = badFrame{fmt.Errorf("frame follows one with CRC %08x, not %08x", h.Before, s.before)}
		}
		if err == nil {
			err = s.take(&h, payload)
		}
		var bad badFrame
		if errors.As(err, &bad) {
			s.bad = bad.reason
			return nil
		}
		if err != nil {
			return err
		}
		s.Position += h.Size()
		s.before = h.HeaderCRC
		s.vouched = max(s.vouched, h.Synced)
		if h.Kind == format.MarkFrame {
			s.marked = s.Position
		}
	}
	return nil
}

// badFrame tells a frame that does not make sense from a failed read.
type badFrame struct{ reason error }

func (b badFrame) Error() string { return b.reason.Error() }

// frame reads and checks the frame at position.
func (s *Scanner) frame(position int64) (h format.FrameHeader, payload []byte, err error) {
	b, err := s.Bytes(position, format.FrameHeaderSize)
	if err == io.EOF {
		return h, nil, badFrame{fmt.Errorf("the segment ends at %d, within a frame header", s.Size)}
	}
	if err != nil {
		return h, nil, err
	}
	if h, err = format.ParseFrameHeader(b, position, s.Header.Salt); err != nil {
		return h, nil, badFrame{err}
	}
	b, err = s.Bytes(position, h.Size()) // readers want its padding, too
	if err == io.EOF {
		return h, nil, badFrame{fmt.Errorf("the segment ends at %d, within a frame of %d bytes", s.Size, h.Length)}
	}
	if err != nil {
		return h, nil, err
	}
	payload = b[format.FrameHeaderSize:][:h.Length]
	if err := h.CheckPayload(payload); err != nil {
		return h, nil, badFrame{err}
	}
	return h, payload, nil
}

// take adds a valid frame up.
func (s *Scanner) take(h *format.FrameHeader, payload []byte) error {
	switch h.Kind {
	case format.EntryFrame:
		if h.Index < s.Header.First || h.Index > s.index.Next {
			return badFrame{fmt.Errorf("entry %d does not follow [%d, %d)", h.Index, s.Header.First, s.index.Next)}
		}
		if h.Index < s.index.Next {
			before := func(p *format.Point) bool { return p.Index < h.Index }
			from, after, limit, ok := s.index.Bracket(before)
			if ok {
				var err error
				if after, err = seek(s.File, s.Path, s.Header.Salt, from, after, limit, before); err != nil {
					return err
				}
			}
			s.index.Cut(after)
		}
		s.index.Add(h, s.Position)
	case format.HardStateFrame, format.MarkFrame:
		hard, err := format.ParseHardState(payload)
		if err != nil {
			return badFrame{err}
		}
		s.hard = hard
	}
	return nil
}

// lookBehind returns what the bad frame at position is, by what lies behind it.
func (s *Scanner) lookBehind() error {
	for at := s.Position; at+format.FrameHeaderSize <= s.Size; at += format.FrameAlignment {
		b, err := s.Bytes(at, format.FrameHeaderSize)
		if err != nil {
			return err
		}
		if format.FrameSalt(b) != s.Header.Salt {
			continue
		}
		if at == s.Position {
			s.torn = true
		}
		h, err := format.ParseFrameHeader(b, at, s.Header.Salt)
		if err != nil {
			continue
		}
		s.torn = true
		if h.Synced > s.Position {
			s.corrupt = true
		}
		s.lastIndex = max(s.lastIndex, h.Index)
	}
	return nil
}
