package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// ForeignFile is a file whose name says that it is part of the log but which is not: it was
// copied or renamed. It is not read. Recover and Repairer.Finish set it aside.
type ForeignFile struct {
	Path   string
	Reason error
}

// leaveForeign removes from f the files that must not be acted upon. A file named .reset or
// .repair replaces segments, so its name is accepted only with a header of this log that matches
// the name. Of two segments with one ordinal, at most one was written last by this log.
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
			return fmt.Errorf("the file would replace segment %d, which is newer", last)
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.repairs, err = f.keep(f.repairs, func(h *format.Header) error {
		if !h.Rebuilt() {
			return errors.New("the file is incomplete")
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

// maxGap bounds how many consecutive segments may be taken for missing because of a file name
// alone.
const maxGap = 1024

// leaveFarAway removes segments whose names imply that segments before them are missing but whose
// headers contradict the name: the file was renamed. If the header cannot be read, the name is
// accepted up to maxGap.
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

// keep returns those of segments that belong to this log and whose header passes check. The
// others are recorded as foreign files.
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

// leaveTwins keeps one segment of each ordinal: one with a valid header, and preferably a
// repaired one, since it replaced the other.
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
		f.Foreign = append(f.Foreign, ForeignFile{f.Segments[out].Path, fmt.Errorf("the file is not segment %d, which is %s", by.Ordinal, filepath.Base(by.Path))})
		f.Segments = slices.Delete(f.Segments, out, out+1)
	}
	return nil
}

// rank returns how likely the file is the segment that its name says. Higher is likelier.
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

// SetForeignAside renames foreign files to names that nothing reads.
func (d *Dir) SetForeignAside(foreign []ForeignFile) error {
	for _, foreign := range foreign {
		d.Options.Logger.Error("a file in the log's directory is not part of the log; setting it aside", "file", foreign.Path, "reason", foreign.Reason)
		if err := d.SetAside(foreign.Path); err != nil {
			return fmt.Errorf("set aside a foreign file: %w", err)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	return d.SyncDir()
}
