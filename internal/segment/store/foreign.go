package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// ForeignFile is a file whose name says that it is part of the log, and which is not:
// it was copied or renamed here. Nothing reads it; Open and Repairer.Finish set it
// aside.
type ForeignFile struct {
	Path   string
	Reason error
}

// leaveForeign takes out of found what must not be acted upon. The names of
// segments that are to replace others, .reset and .repair, are orders: they count
// only with a header of this log that fits to the name. Of two segments with one
// ordinal at most one was made by this log last.
func (f *Files) leaveForeign() (err error) {
	if err := f.chooseBegin(); err != nil {
		return err
	}
	last := uint64(0)
	if n := len(f.Segments); n > 0 {
		last = f.Segments[n-1].Ordinal
	}
	f.resets, err = f.keep(f.resets, func(h *format.Header) error {
		if h.Ordinal <= last {
			return fmt.Errorf("it would replace segment %d, which is newer", last)
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.repairs, err = f.keep(f.repairs, func(h *format.Header) error {
		if !h.Rebuilt() {
			return errors.New("it is not complete")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := f.leaveTwins(); err != nil {
		return err
	}
	return f.leaveFarAway()
}

// maxGap bounds how many segments in a row can be missing on the word of a name
// alone.
const maxGap = 1024

// leaveFarAway leaves out segments whose names say that others are missing in front
// of them, and whose headers do not say so: somebody gave them that name. Where the
// header cannot be read the name counts, up to a bound.
func (f *Files) leaveFarAway() error {
	for k := len(f.Segments) - 1; k >= 0; k-- {
		seg, before := f.Segments[k], uint64(0)
		switch {
		case k > 0:
			before = f.Segments[k-1].Ordinal
		case f.Begin != nil:
			before = f.Begin.Ordinal
		default:
			continue // the log begins with it
		}
		if seg.Ordinal <= before+1 {
			continue
		}
		h, err := f.dir.peek(seg)
		switch {
		case err == nil:
			continue
		case !errors.As(err, new(*segment.CorruptError)):
			return err
		case h == nil && seg.Ordinal-before <= maxGap:
			continue
		}
		f.Foreign = append(f.Foreign, ForeignFile{seg.Path, err})
		f.Segments = slices.Delete(f.Segments, k, k+1)
	}
	return nil
}

// keep returns those of segments that are of this log and whose header passes
// check; the others are foreign files.
func (f *Files) keep(segments []*Segment, check func(*format.Header) error) (kept []*Segment, err error) {
	for _, seg := range segments {
		h, err := f.dir.peek(seg)
		if err == nil {
			err = errors.Join(f.dir.Options.Owner.Mismatch(h.Owner), check(h))
		} else if !errors.As(err, new(*segment.CorruptError)) {
			return nil, err
		}
		if err != nil {
			f.Foreign = append(f.Foreign, ForeignFile{seg.Path, err})
			continue
		}
		kept = append(kept, seg)
	}
	return kept, nil
}

// leaveTwins keeps one segment of each ordinal: one with a valid header, rather
// one that was repaired, since a repaired segment took another one's place.
func (f *Files) leaveTwins() error {
	for k := 1; k < len(f.Segments); {
		a, b := f.Segments[k-1], f.Segments[k]
		if a.Ordinal != b.Ordinal {
			k++
			continue
		}
		rankA, err := f.dir.rank(a)
		if err != nil {
			return err
		}
		rankB, err := f.dir.rank(b)
		if err != nil {
			return err
		}
		out, by := k, a
		if rankB > rankA {
			out, by = k-1, b
		}
		f.Foreign = append(f.Foreign, ForeignFile{f.Segments[out].Path, fmt.Errorf("it is not segment %d, which is %s", by.Ordinal, filepath.Base(by.Path))})
		f.Segments = slices.Delete(f.Segments, out, out+1)
	}
	return nil
}

// rank is how likely a file is the segment that its name says.
func (d *Dir) rank(seg *Segment) (int, error) {
	h, err := d.peek(seg)
	switch {
	case errors.As(err, new(*segment.CorruptError)):
		return 0, nil
	case err != nil:
		return 0, err
	case d.Options.Owner.Mismatch(h.Owner) != nil:
		return 0, nil
	case h.Rebuilt():
		return 2, nil
	}
	return 1, nil
}

// SetForeignAside gives foreign files names that nothing reads.
func (d *Dir) SetForeignAside(foreign []ForeignFile) error {
	for _, foreign := range foreign {
		d.Options.Logger.Error("a file is not part of the log that it was found with; it is set aside", "file", foreign.Path, "reason", foreign.Reason)
		if err := d.SetAside(foreign.Path); err != nil {
			return fmt.Errorf("set aside what is not part of the log: %w", err)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	return d.SyncDir()
}
