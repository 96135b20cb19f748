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

// WatermarkFile holds the durable watermark of a log: a position up to which the log certainly
// was durable.
//
// A log whose newest segment is missing, or is an older copy of itself, looks like an undamaged
// log that ends earlier: nothing behind its end shows that there was more. The replica would vote
// as if it had never seen entries that it acknowledged. The watermark prevents that. It is
// written after the segments are durable,
//
//   - when the term or the vote has changed, before the write that changed it
//     returns: no vote is sent earlier,
//   - when a segment has been begun,
//   - when the log becomes idle or is closed, with the sync mark,
//   - and when Options.WatermarkBytes have become durable since.
//
// A log that ends before its watermark has lost something. The watermark does not cover what
// became durable since it was last written: less than WatermarkBytes of entries in the newest
// segment, without a new term or vote.
//
// The watermark can only show that a log has lost something. Without a watermark, or with one
// that is older than the log, the log is accepted as it is.
type WatermarkFile struct {
	Dir     *Dir
	Written format.Watermark // newest slot of the file
	known   bool             // Written is in the file, in the slot of its counter
	damaged atomic.Bool      // the file is damaged, and must be rewritten
	file    vfs.File         // used by the writer alone, and open while the log is; if nil, the next write opens it
}

const (
	watermarkName = "watermark"

	// defaultWatermarkBytes is small beside a segment, and large enough that one more sync per so
	// many bytes costs little.
	defaultWatermarkBytes = 8 << 20
)

// NewWatermarkFile returns the watermark of the log in d. Read reads it.
func NewWatermarkFile(d *Dir) *WatermarkFile { return &WatermarkFile{Dir: d} }

// Read reads the file. A file that is missing or damaged is not damage of the log: lacks is the
// reason, and the next write rewrites the file.
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

// parse returns the newest slot in the file's content if it is whole and belongs to this log.
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

// Path returns the path of the file.
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

// due reports whether the watermark has to be written: it is not known, now has another segment,
// term or vote, or Options.WatermarkBytes have become durable since.
func (w *WatermarkFile) due(now *format.Watermark) bool {
	return !w.known || w.Written.Ordinal != now.Ordinal || w.Written.Term != now.Term || w.Written.Vote != now.Vote ||
		now.Position-w.Written.Position >= w.Dir.Options.WatermarkBytes
}

// Write writes now to the slot that does not hold the newest watermark.
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
			// On a full disk, a log that had no watermark before must still be able to vote and trim.
			w.Dir.Options.Logger.Warn("no room for the durable watermark; it is written when there is", "dir", w.Dir.Path, "error", err)
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

// create writes the whole file, so that later slots need no room.
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

// LogEnd is the place at which a log was found to end.
type LogEnd struct {
	Header   *format.Header // of the newest segment
	Position int64          // behind its last frame
	Hard     segment.HardState
	Last     uint64 // index of the last entry
}

// Missing describes what a log that ends at end lacks; "" if nothing is known to be missing.
func (w *WatermarkFile) Missing(end LogEnd) string {
	mark, lacks := &w.Written, ""
	switch h := end.Header; {
	case !w.known:
	case h.Ordinal < mark.Ordinal:
		lacks = "its newest segment is missing"
	case h.Ordinal == mark.Ordinal && !h.Rebuilt() && h.Salt != mark.Salt:
		lacks = "its newest segment is another file"
	// A repaired segment was rewritten, and is complete.
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

// DurableIn returns the position in front of which everything in the segment of h was durable
// according to the watermark, or 0 if the watermark is of another segment.
func (w *WatermarkFile) DurableIn(h *format.Header) int64 {
	if h == nil || !w.known || h.Ordinal != w.Written.Ordinal || h.Salt != w.Written.Salt {
		return 0
	}
	return w.Written.Position
}
