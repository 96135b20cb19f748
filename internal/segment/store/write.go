package store

import (
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// writer appends to the log: entries, hard states and sync marks.
type writer struct {
	*newest
	*failure
	reader    *reader
	names     *names
	watermark *WatermarkFile
	writing   bool // Write is running
}

// Write implements segment.Log. It stages everything in ws, writes it with one system call per
// segment, and syncs once if one of ws asks for it.
//
// Hard states between the first and the last of ws are not written: no one has seen them before
// Write returns.
func (w *writer) Write(ws []segment.Write) (segment.Result, error) {
	if err := w.failed(); err != nil {
		return segment.Result{}, err
	}
	if err := segment.CheckWrites(ws, w.FirstIndex(), w.LastIndex()+1); err != nil {
		return segment.Result{}, err
	}
	var result segment.Result
	w.writing = true
	err := w.write(ws, &result)
	w.writing = false
	if err == nil && len(result.Rolled) > 0 {
		err = bug(w.checkEnd())
	}
	if err != nil {
		return result, w.fail(err)
	}
	return result, nil
}

func (w *writer) write(ws []segment.Write, result *segment.Result) error {
	w.stagedNext = w.active.index.Next
	hard, mustSync := w.hard, false
	for i := range ws {
		for k := range ws[i].Entries {
			if err := w.stageEntry(&ws[i].Entries[k], result); err != nil {
				return err
			}
		}
		if ws[i].HardState != nil {
			hard = *ws[i].HardState
		}
		mustSync = mustSync || ws[i].MustSync
	}
	if hard != w.hard {
		if err := w.stageHardState(hard, result); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	segment.CallWritten(ws)
	if mustSync {
		if err := w.sync(); err != nil {
			return err
		}
		return w.writeWatermarkIfDue()
	}
	return nil
}

// Mark implements segment.Log. It writes a sync mark unless the newest frame is one. The mark is
// not synced: it becomes durable with the next write, or when the kernel writes it back. Before
// the mark, the durable watermark is written, for what is durable then.
func (w *writer) Mark() error {
	if err := w.failed(); err != nil {
		return err
	}
	w.busy.shrink()
	w.gather.shrink()
	if err := w.watermark.Write(w.durable); err != nil {
		return w.fail(err)
	}
	size := format.FrameSize(format.HardStateSize)
	if w.torn || w.marked == w.position || w.mustRoll(size) {
		return nil // a mark does not justify a new segment
	}
	w.stageState(format.MarkFrame, w.hard)
	if err := w.flush(); err != nil {
		return w.fail(err)
	}
	w.marked = w.position
	return nil
}

func (w *writer) stageEntry(f *segment.Entry, result *segment.Result) error {
	if f.Index != w.stagedNext {
		if err := w.truncateSuffix(f.Index, result); err != nil {
			return err
		}
	}
	if w.mustRoll(format.FrameSize(len(f.Payload))) {
		if err := w.roll(result); err != nil {
			return err
		}
	}
	w.stage(format.EntryHeader(f), f.Payload)
	w.stagedNext = f.Index + 1
	return nil
}

func (w *writer) stageHardState(hard segment.HardState, result *segment.Result) error {
	if w.mustRoll(format.FrameSize(format.HardStateSize)) {
		if err := w.roll(result); err != nil {
			return err
		}
	}
	w.stageState(format.HardStateFrame, hard)
	return nil
}

func (w *writer) writeWatermarkIfDue() error {
	if !w.watermark.due(&w.durable) {
		return nil
	}
	return w.watermark.Write(w.durable)
}
