package repair

import (
	"fmt"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// spanReader reads entries of spans. It keeps the file that it read last open.
type spanReader struct {
	fs     vfs.FS
	at     *source
	file   vfs.File
	walker *format.Walker
}

// frames calls visit with the frame header and position of each of the entries [from, to] of s,
// which is whole, until visit returns false.
func (r *spanReader) frames(s *span, from, to uint64, visit func(h *format.FrameHeader, position int64) (bool, error)) error {
	if err := r.open(s.from); err != nil {
		return err
	}
	w := r.walker
	for w.MoveTo(s.begin); w.Next(); {
		h := &w.Frame
		if h.Kind == format.EntryFrame && h.Index > to {
			w.Reject("entry %d where %d should be", h.Index, to)
			break
		}
		if h.Kind == format.EntryFrame && h.Index >= from {
			if more, err := visit(h, w.Position); err != nil || !more || h.Index == to {
				return err
			}
		}
	}
	return r.stopped(from, to)
}

// entries is like frames but passes the entry with its payload, which is verified and valid until
// visit returns.
func (r *spanReader) entries(s *span, from, to uint64, visit func(f segment.Entry) bool) error {
	return r.frames(s, from, to, func(h *format.FrameHeader, _ int64) (bool, error) {
		payload, ok := r.walker.Payload()
		if !ok {
			return false, r.stopped(h.Index, h.Index)
		}
		return visit(h.Entry(payload)), nil
	})
}

// header returns the frame header of one entry of s.
func (r *spanReader) header(s *span, i uint64) (found format.FrameHeader, err error) {
	err = r.frames(s, i, i, func(h *format.FrameHeader, _ int64) (bool, error) {
		found = *h
		return false, nil
	})
	return found, err
}

// stopped returns the error of the walker, or the error for a frame that was whole when the log
// was surveyed.
func (r *spanReader) stopped(first, last uint64) error {
	if r.walker.Err != nil {
		return r.walker.Err
	}
	reason := "the file ends in front of the frame"
	if r.walker.Bad != nil {
		reason = r.walker.Bad.Error()
	}
	return &segment.CorruptError{File: r.at.path, Position: r.walker.Position, FirstIndex: first, LastIndex: last, Detail: reason}
}

func (r *spanReader) open(s *source) (err error) {
	if r.at != s {
		if err := r.close(); err != nil {
			return err
		}
		if r.file, err = r.fs.Open(s.path); err != nil {
			return fmt.Errorf("open segment: %w", err)
		}
		r.at, r.walker = s, store.NewWalker(r.file, s.path, s.salt, 0, true)
	}
	if r.walker.End, err = r.file.Size(); err != nil { // the file of given entries grows
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	return nil
}

func (r *spanReader) close() error {
	if r.at == nil {
		return nil
	}
	r.at, r.walker = nil, nil
	return r.file.Close()
}
