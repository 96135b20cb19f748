package segment

import "fmt"

// CorruptError names stored bytes that do not match their checksum, or a file
// that is missing. They are never served and never cut away; the file stays as
// it was found.
type CorruptError struct {
	File       string // path; the name of a missing file ends in * if its first index is not known
	Position   int64  // byte in File at which the damage shows
	FirstIndex uint64 // entries [FirstIndex, LastIndex] are damaged, or may be
	LastIndex  uint64 // 0: no entries are
	Detail     string
	// Renew: entries from other replicas cannot mend it, see ErrForgotten.
	Renew bool
}

func (e *CorruptError) Error() string {
	text := fmt.Sprintf("%s is corrupt at byte %d", e.File, e.Position)
	switch {
	case e.LastIndex == 0:
	case e.FirstIndex == e.LastIndex:
		text += fmt.Sprintf(", entry %d is damaged", e.FirstIndex)
	default:
		text += fmt.Sprintf(", entries %d to %d may be damaged", e.FirstIndex, e.LastIndex)
	}
	advice := "another replica can give what is lost; without one, bring the file back from a copy"
	if e.Renew {
		advice = "this replica may have forgotten its vote and has to be replaced by a new one; without others, bring the file back from a copy"
	}
	return fmt.Sprintf("%s: %s (%s)", text, e.Detail, advice)
}

// corruption is the first damage of a report as an error. One that cannot be
// mended goes first.
func (r *Report) corruption() *CorruptError {
	d := r.forgotten()
	if d == nil {
		d = &r.Damage[0]
	}
	return &CorruptError{
		File: d.File, Position: d.Position, FirstIndex: d.First, LastIndex: d.Last, Detail: d.Detail, Renew: d.Renew,
	}
}

// corruptFrame is the error for the frame at position, where the entry index
// should be. What is damaged reaches up to the next frame whose header is
// valid, if there is one in front of limit, and not to the entry reach.
func corruptFrame(file File, path string, salt uint64, position, limit int64, index, reach uint64, reason error) *CorruptError {
	e := &CorruptError{
		File: path, Position: position, FirstIndex: index, LastIndex: max(reach, index+1) - 1, Detail: reason.Error(),
	}
	w := walker{scanner: scanner{file: file, path: path, header: &header{salt: salt}, size: limit, holes: true}}
	if h, _, _, err := w.look(position); err == nil && h.kind != 0 {
		// Its header tells what it is. An entry with another index shows that
		// those between were lost before.
		switch {
		case h.kind != entryFrame:
			e.FirstIndex, e.LastIndex = 0, 0
		case h.index == index:
			e.LastIndex = index
		case h.index > index:
			e.LastIndex = h.index - 1
		}
		return e
	}
	for at := position + frameAlignment; ; at += frameAlignment {
		var err error
		if at, err = w.nextFrame(at); err != nil || at >= limit {
			return e // a failed read tells no more
		}
		if h, _, _, err := w.look(at); err == nil && h.kind == entryFrame {
			if h.index > index {
				e.LastIndex = min(e.LastIndex, h.index-1)
			}
			return e
		}
	}
}
