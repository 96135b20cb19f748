package store

import (
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// corruptFrame is the error for the frame at position, where the entry index
// should be. What is damaged reaches up to the next frame whose header is
// valid, if there is one in front of limit, and not to the entry reach.
func corruptFrame(file vfs.File, path string, salt uint64, position, limit int64, index, reach uint64, reason error) *segment.CorruptError {
	e := &segment.CorruptError{
		File: path, Position: position, FirstIndex: index, LastIndex: max(reach, index+1) - 1, Detail: reason.Error(),
	}
	w := NewWalker(file, path, salt, limit, true)
	w.EndUnknown = true
	if w.MoveTo(position); w.Next() {
		// Its header says what it is. An entry with another index shows that
		// those between were lost before.
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
	return e // a failed read tells no more
}
