package segment

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"strandline.dev/test/flaw"
)

// scanner reads the frames of a segment in file order and adds them up.
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
type scanner struct {
	file   File
	path   string
	header *header
	size   int64 // where to stop at the latest
	// holes: what the disk cannot read counts as zeros, which are no frames. Only
	// where the end of the segment is known: elsewhere the log would seem to end
	// there.
	holes bool

	buffer []byte // holds the file from bufferAt on
	start  int64

	// Results of scan.
	index    *index
	hard     HardState
	position int64  // behind the last valid frame
	before   uint32 // header CRC of the last valid frame
	vouched  int64  // highest synced-through of the valid frames
	marked   int64  // position behind the last sync mark
	bad      error  // why the frame at position is bad; nil if size was reached

	// Results of lookBehind.
	torn      bool
	corrupt   bool
	lastIndex uint64 // highest index of an entry behind the bad frame
}

const scanChunk = 1 << 20

// bytes returns n bytes at position, valid until the next call. io.EOF if they
// do not all lie in front of size.
func (s *scanner) bytes(position, n int64) ([]byte, error) {
	if position+n > s.size {
		return nil, io.EOF
	}
	if at := position - s.start; at >= 0 && at+n <= int64(len(s.buffer)) {
		return s.buffer[at : at+n], nil
	}
	want := min(max(n, scanChunk), s.size-position)
	if int64(cap(s.buffer)) < want {
		s.buffer = make([]byte, want)
	}
	s.buffer, s.start = s.buffer[:want], position
	if got, err := s.file.ReadAt(s.buffer, position); err == io.EOF {
		// Shorter than size: what lies in front of its end is there all the same.
		if s.buffer = s.buffer[:got]; int64(got) < n {
			return nil, err
		}
	} else if s.holes && unreadable(err) {
		if err := s.readAround(position); err != nil {
			return nil, err
		}
	} else if err != nil {
		s.buffer = s.buffer[:0]
		return nil, fmt.Errorf("scan %s: %w", s.path, err)
	}
	return s.buffer[:n], nil
}

// sector is what a disk loses at once, or less: bytes.
const sector = 512

// unreadable tells that the disk has lost bytes, as against a read that failed
// for another reason.
func unreadable(err error) bool { return errors.Is(err, syscall.EIO) }

// readAround fills the buffer from position on with what can be read.
func (s *scanner) readAround(position int64) error {
	for rest := s.buffer; len(rest) > 0; {
		piece := rest[:min(sector-position%sector, int64(len(rest)))]
		_, err := s.file.ReadAt(piece, position)
		rest, position = rest[len(piece):], position+int64(len(piece))
		switch {
		case unreadable(err):
			clear(piece)
		case err != nil && err != io.EOF:
			s.buffer = s.buffer[:0]
			return fmt.Errorf("scan %s: %w", s.path, err)
		}
	}
	return nil
}

// scan adds up the frames. Its error is one of reading; bad frames are a
// result.
func (s *scanner) scan() error {
	s.index, s.hard = newIndex(s.header), s.header.hard
	s.position, s.before, s.vouched, s.marked = headerSize, s.header.link(), headerSize, headerSize
	for s.position < s.size {
		h, payload, err := s.frame(s.position)
		if err == nil && h.before != s.before && !flaw.Is(flaw.StaleFramesCount) {
			err = badFrame{fmt.Errorf("frame follows one with CRC %08x, not %08x", h.before, s.before)}
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
		s.position += h.size()
		s.before = h.headerCRC
		s.vouched = max(s.vouched, h.synced)
		if h.kind == markFrame {
			s.marked = s.position
		}
	}
	return nil
}

// badFrame tells a frame that does not make sense from a failed read.
type badFrame struct{ reason error }

func (b badFrame) Error() string { return b.reason.Error() }

// frame reads and checks the frame at position.
func (s *scanner) frame(position int64) (h frameHeader, payload []byte, err error) {
	b, err := s.bytes(position, frameHeaderSize)
	if err == io.EOF {
		return h, nil, badFrame{fmt.Errorf("the segment ends at %d, within a frame header", s.size)}
	}
	if err != nil {
		return h, nil, err
	}
	if h, err = parseFrameHeader(b, position, s.header.salt); err != nil {
		return h, nil, badFrame{err}
	}
	b, err = s.bytes(position, h.size()) // readers want its padding, too
	if err == io.EOF {
		return h, nil, badFrame{fmt.Errorf("the segment ends at %d, within a frame of %d bytes", s.size, h.length)}
	}
	if err != nil {
		return h, nil, err
	}
	payload = b[frameHeaderSize:][:h.length]
	if err := h.checkPayload(payload); err != nil {
		return h, nil, badFrame{err}
	}
	return h, payload, nil
}

// take adds a valid frame up.
func (s *scanner) take(h *frameHeader, payload []byte) error {
	switch h.kind {
	case entryFrame:
		if h.index < s.header.first || h.index > s.index.next {
			return badFrame{fmt.Errorf("entry %d does not follow [%d, %d)", h.index, s.header.first, s.index.next)}
		}
		if h.index < s.index.next {
			before := func(p *point) bool { return p.index < h.index }
			from, after, limit, ok := s.index.bracket(before)
			if ok {
				var err error
				if after, err = seek(s.file, s.path, s.header.salt, from, after, limit, before); err != nil {
					return err
				}
			}
			s.index.cut(after)
		}
		s.index.add(h, s.position)
	case hardStateFrame, markFrame:
		hard, err := parseHardState(payload)
		if err != nil {
			return badFrame{err}
		}
		s.hard = hard
	}
	return nil
}

// lookBehind tells what the bad frame at position is, by what lies behind it.
func (s *scanner) lookBehind() error {
	for at := s.position; at+frameHeaderSize <= s.size; at += frameAlignment {
		b, err := s.bytes(at, frameHeaderSize)
		if err != nil {
			return err
		}
		if frameSalt(b) != s.header.salt && !flaw.Is(flaw.StaleFramesCount) {
			continue
		}
		if at == s.position {
			s.torn = true
		}
		h, err := parseFrameHeader(b, at, s.header.salt)
		if err != nil {
			continue
		}
		s.torn = true
		if h.synced > s.position {
			s.corrupt = true
		}
		s.lastIndex = max(s.lastIndex, h.index)
	}
	return nil
}
