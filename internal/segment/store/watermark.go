package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// WatermarkFile holds the durable watermark of a log: how far the log certainly went.
//
// A log whose newest segment is an older copy of itself, or is not there, looks
// like a sound log that ends earlier: nothing behind its end shows more. The
// replica would vote as if it had never seen what it acknowledged. The
// watermark prevents that. It is written after what it says is durable in the segments,
//
//   - when the term or the vote has changed, before the write that changed it
//     is done: no vote leaves before,
//   - when a segment has been begun,
//   - when the log falls idle or is closed, with the sync mark,
//   - and when Options.WatermarkBytes have become durable since.
//
// A log that ends before its watermark has lost something. What the watermark
// does not cover is what became durable since it was written last: less than
// WatermarkBytes of entries, in the newest segment, without a new term or vote.
//
// The watermark only ever adds a reason for distrust. Without one, or with one
// that is older than the log, the log counts as it is.
type WatermarkFile struct {
	Dir     *Dir
	Written format.Watermark // newest slot of the file
	known   bool             // written is in the file, in the slot of its counter
	damaged atomic.Bool      // the file is damaged, and is to be made anew
	file    vfs.File         // the writer's own, open while the log is; nil: it is opened by the next write
}

const (
	watermarkName = "watermark"

	// defaultWatermarkBytes is small beside a segment, and one sync more for so
	// many bytes is not felt.
	defaultWatermarkBytes = 8 << 20
)

// NewWatermarkFile returns the watermark of the log in d, not read yet.
func NewWatermarkFile(d *Dir) *WatermarkFile { return &WatermarkFile{Dir: d} }

// Read reads the file. One that is missing or damaged is no damage of the log:
// lacks is the reason, and the next write makes the file anew.
func (w *WatermarkFile) Read() (lacks, err error) {
	b, err := w.Dir.FS.ReadFile(w.Path())
	if errors.Is(err, fs.ErrNotExist) || vfs.Unreadable(err) {
		return err, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the durable watermark: %w", err)
	}
	written, err := w.parse(b)
	if errors.Is(err, format.ErrUnknownVersion) {
		return nil, err
	}
	if err != nil {
		return err, nil
	}
	w.Written, w.known = written, true
	return nil, nil
}

// parse returns the newest slot of the file's content, if it is whole and that
// of this log.
func (w *WatermarkFile) parse(b []byte) (written format.Watermark, err error) {
	written, err = format.ParseWatermark(b)
	if err == nil && len(b) < format.WatermarkSize {
		err = format.ErrNoSlot // there is no room for the next slot
	}
	if errors.Is(err, format.ErrNoSlot) {
		err = fmt.Errorf("%d bytes: %w", len(b), err)
	}
	if err == nil {
		err = w.Dir.Options.Owner.Mismatch(written.Owner)
	}
	if err != nil {
		return format.Watermark{}, fmt.Errorf("%s: %w", w.Path(), err)
	}
	return written, nil
}

func (w *WatermarkFile) Path() string {
	if w.Dir.Options.Watermark != "" {
		return w.Dir.Options.Watermark
	}
	return filepath.Join(w.Dir.Path, watermarkName)
}

// hold opens the file, if there is one.
func (w *WatermarkFile) hold() (err error) {
	if w.known {
		w.file, err = w.Dir.FS.Open(w.Path())
	}
	return err
}

// due reports whether the file lacks what must not be missed of now.
func (w *WatermarkFile) due(now *format.Watermark) bool {
	return !w.known || w.Written.Ordinal != now.Ordinal || w.Written.Term != now.Term || w.Written.Vote != now.Vote ||
		now.Position-w.Written.Position >= w.Dir.Options.WatermarkBytes
}

// Write writes the slot that does not hold the newest.
func (w *WatermarkFile) Write(now format.Watermark) error {
	now.Counter, now.Owner = w.Written.Counter, w.Dir.Options.Owner
	if w.damaged.Swap(false) {
		w.known = false
	}
	if w.known && now == w.Written {
		return nil
	}
	now.Counter++
	var err error
	if w.known {
		err = w.writeSlot(&now)
	} else {
		err = w.create(&now)
		if errors.Is(err, syscall.ENOSPC) {
			// A full disk must not keep a log from voting and trimming that had
			// no watermark before either.
			w.Dir.Options.Logger.Warn("no room for the durable watermark; made when there is", "dir", w.Dir.Path, "error", err)
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("write the durable watermark: %w", err)
	}
	w.Written, w.known = now, true
	return nil
}

func (w *WatermarkFile) writeSlot(now *format.Watermark) error {
	if w.file == nil {
		if err := w.hold(); err != nil {
			return err
		}
	}
	if _, err := w.file.WriteAt(now.Encode(), now.Slot()); err != nil {
		return err
	}
	return w.file.Datasync()
}

// create makes the whole file, so that no later slot needs room.
func (w *WatermarkFile) create(now *format.Watermark) error {
	b := make([]byte, format.WatermarkSize)
	copy(b[now.Slot():], now.Encode())
	if err := vfs.WriteFileDurably(w.Dir.FS, w.Path(), b); err != nil {
		return err
	}
	file, err := w.Dir.FS.Open(w.Path())
	if err != nil {
		return err
	}
	err = w.Close()
	w.file = file
	return err
}

func (w *WatermarkFile) Close() error {
	if w.file == nil {
		return nil
	}
	file := w.file
	w.file = nil
	return file.Close()
}

// LogEnd is where a log was found to end.
type LogEnd struct {
	Header   *format.Header // of the newest segment
	Position int64          // behind its last frame
	Hard     segment.HardState
	Last     uint64 // index of the last entry
}

// Missing says what a log lacks that ends there; "" if nothing is known to be
// missing.
func (w *WatermarkFile) Missing(end LogEnd) string {
	mark, lacks := &w.Written, ""
	switch h := end.Header; {
	case !w.known:
	case h.Ordinal < mark.Ordinal:
		lacks = "its newest segment is missing"
	case h.Ordinal == mark.Ordinal && !h.Rebuilt() && h.Salt != mark.Salt:
		lacks = "its newest segment is another file"
	// A repaired segment is laid out anew, and complete.
	case h.Ordinal == mark.Ordinal && !h.Rebuilt() && end.Position < mark.Position:
		lacks = "its newest segment is an older copy, or damaged there"
	case end.Hard.Term < mark.Term:
		lacks = "a term is missing"
	case end.Hard.Term == mark.Term && mark.Vote != 0 && end.Hard.Vote != mark.Vote:
		lacks = "a vote is missing"
	}
	if lacks == "" {
		return ""
	}
	return fmt.Sprintf("the log ends before what was known to be durable, %s: it ends in segment %d at byte %d, entry %d, term %d, vote %d; "+
		"the durable watermark is segment %d, byte %d, entry %d, term %d, vote %d", lacks,
		end.Header.Ordinal, end.Position, end.Last, end.Hard.Term, end.Hard.Vote,
		mark.Ordinal, mark.Position, mark.Last, mark.Term, mark.Vote)
}

// DurableIn returns the position in front of which everything in the segment of h
// was durable, as far as the watermark covers it; 0 if it does not.
func (w *WatermarkFile) DurableIn(h *format.Header) int64 {
	if h == nil || !w.known || h.Ordinal != w.Written.Ordinal || h.Salt != w.Written.Salt {
		return 0
	}
	return w.Written.Position
}
