package segment

import (
	"errors"
	"fmt"
	"io"
)

// spanReader reads entries of spans. It keeps the file that it read last open.
type spanReader struct {
	fs FS
	at *source
	sc scanner
}

// frames calls visit with the frame headers of the entries [from, to] of s,
// which is whole, and where they are, until it answers false.
func (r *spanReader) frames(s *span, from, to uint64, visit func(h *frameHeader, position int64) (bool, error)) error {
	if err := r.open(s.from); err != nil {
		return err
	}
	for position := s.begin; ; {
		b, err := r.sc.bytes(position, frameHeaderSize)
		if err != nil && err != io.EOF {
			return err
		}
		var h frameHeader
		if err == nil {
			h, err = parseFrameHeader(b, position, s.from.salt)
		}
		if err == nil && h.kind == entryFrame && h.index > to {
			err = fmt.Errorf("entry %d where %d should be", h.index, to)
		}
		if err != nil {
			return r.changed(position, from, to, err)
		}
		if h.kind == entryFrame && h.index >= from {
			if more, err := visit(&h, position); err != nil || !more || h.index == to {
				return err
			}
		}
		position += h.size()
	}
}

// entries is frames with the payload, which is checked and valid until visit
// returns.
func (r *spanReader) entries(s *span, from, to uint64, visit func(f Frame) bool) error {
	return r.frames(s, from, to, func(h *frameHeader, position int64) (bool, error) {
		b, err := r.sc.bytes(position+frameHeaderSize, int64(h.length))
		if err == io.EOF {
			err = r.changed(position, h.index, h.index, errors.New("the file ends within the frame"))
		}
		if err != nil {
			return false, err
		}
		if err := h.checkPayload(b); err != nil {
			return false, r.changed(position, h.index, h.index, err)
		}
		return visit(h.frame(b)), nil
	})
}

// header returns that of one entry of s.
func (r *spanReader) header(s *span, i uint64) (found frameHeader, err error) {
	err = r.frames(s, i, i, func(h *frameHeader, _ int64) (bool, error) {
		found = *h
		return false, nil
	})
	return found, err
}

// changed tells of a frame that was whole when the log was surveyed.
func (r *spanReader) changed(position int64, first, last uint64, reason error) error {
	return &CorruptError{File: r.at.path, Position: position, FirstIndex: first, LastIndex: last, Detail: reason.Error()}
}

func (r *spanReader) open(s *source) error {
	if r.at != s {
		if err := r.close(); err != nil {
			return err
		}
		file, err := r.fs.Open(s.path)
		if err != nil {
			return fmt.Errorf("open segment: %w", err)
		}
		r.at, r.sc = s, scanner{file: file, path: s.path, holes: true}
	}
	size, err := r.sc.file.Size() // what was given grows
	if err != nil {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	r.sc.size = size
	return nil
}

func (r *spanReader) close() error {
	if r.at == nil {
		return nil
	}
	file := r.sc.file
	r.at, r.sc = nil, scanner{}
	return file.Close()
}
