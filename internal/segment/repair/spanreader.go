package repair

import (
	"errors"
	"fmt"
	"io"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// spanReader reads entries of spans. It keeps the file that it read last open.
type spanReader struct {
	fs vfs.FS
	at *source
	sc store.Scanner
}

// frames calls visit with the frame headers of the entries [from, to] of s,
// which is whole, and where they are, until it answers false.
func (r *spanReader) frames(s *span, from, to uint64, visit func(h *format.FrameHeader, position int64) (bool, error)) error {
	if err := r.open(s.from); err != nil {
		return err
	}
	for position := s.begin; ; {
		b, err := r.sc.Bytes(position, format.FrameHeaderSize)
		if err != nil && err != io.EOF {
			return err
		}
		var h format.FrameHeader
		if err == nil {
			h, err = format.ParseFrameHeader(b, position, s.from.salt)
		}
		if err == nil && h.Kind == format.EntryFrame && h.Index > to {
			err = fmt.Errorf("entry %d where %d should be", h.Index, to)
		}
		if err != nil {
			return r.changed(position, from, to, err)
		}
		if h.Kind == format.EntryFrame && h.Index >= from {
			if more, err := visit(&h, position); err != nil || !more || h.Index == to {
				return err
			}
		}
		position += h.Size()
	}
}

// entries is frames with the payload, which is checked and valid until visit
// returns.
func (r *spanReader) entries(s *span, from, to uint64, visit func(f segment.Frame) bool) error {
	return r.frames(s, from, to, func(h *format.FrameHeader, position int64) (bool, error) {
		b, err := r.sc.Bytes(position+format.FrameHeaderSize, int64(h.Length))
		if err == io.EOF {
			err = r.changed(position, h.Index, h.Index, errors.New("the file ends within the frame"))
		}
		if err != nil {
			return false, err
		}
		if err := h.CheckPayload(b); err != nil {
			return false, r.changed(position, h.Index, h.Index, err)
		}
		return visit(h.Entry(b)), nil
	})
}

// header returns that of one entry of s.
func (r *spanReader) header(s *span, i uint64) (found format.FrameHeader, err error) {
	err = r.frames(s, i, i, func(h *format.FrameHeader, _ int64) (bool, error) {
		found = *h
		return false, nil
	})
	return found, err
}

// changed is the error of a frame that was whole when the log was surveyed.
func (r *spanReader) changed(position int64, first, last uint64, reason error) error {
	return &segment.CorruptError{File: r.at.path, Position: position, FirstIndex: first, LastIndex: last, Detail: reason.Error()}
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
		r.at, r.sc = s, store.Scanner{File: file, Path: s.path, Holes: true}
	}
	size, err := r.sc.File.Size() // what was given grows
	if err != nil {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	r.sc.Size = size
	return nil
}

func (r *spanReader) close() error {
	if r.at == nil {
		return nil
	}
	file := r.sc.File
	r.at, r.sc = nil, store.Scanner{}
	return file.Close()
}
