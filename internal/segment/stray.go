package segment

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// stray is a file whose name says that it is part of the log, and which is not:
// it was copied or renamed here. Nothing reads it; Open and Mender.Finish set it
// aside.
type stray struct {
	path   string
	reason error
}

// leaveStrays takes out of found what must not be acted upon. The names of
// segments that are to replace others, .reset and .mend, are orders: they count
// only with a header of this log that fits to the name. Of two segments with one
// ordinal at most one was made by this log last.
func (s *Store) leaveStrays(found *files) (err error) {
	if err := s.chooseBegin(found); err != nil {
		return err
	}
	last := uint64(0)
	if n := len(found.segments); n > 0 {
		last = found.segments[n-1].ordinal
	}
	found.resets, err = s.keep(found, found.resets, func(h *header) error {
		if h.ordinal <= last {
			return fmt.Errorf("it would replace segment %d, which is newer", last)
		}
		return nil
	})
	if err != nil {
		return err
	}
	found.mends, err = s.keep(found, found.mends, func(h *header) error {
		if !h.mended() {
			return errors.New("it is not complete")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.leaveTwins(found); err != nil {
		return err
	}
	return s.leaveFarAway(found)
}

// maxGap bounds how many segments in a row can be missing on the word of a name
// alone.
const maxGap = 1024

// leaveFarAway leaves out segments whose names say that others are missing in front
// of them, and whose headers do not say so: somebody gave them that name. Where the
// header cannot be read the name counts, up to a bound.
func (s *Store) leaveFarAway(found *files) error {
	for k := len(found.segments) - 1; k >= 0; k-- {
		seg, before := found.segments[k], uint64(0)
		switch {
		case k > 0:
			before = found.segments[k-1].ordinal
		case found.begin != nil:
			before = found.begin.ordinal
		default:
			continue // the log begins with it
		}
		if seg.ordinal <= before+1 {
			continue
		}
		h, err := s.peek(seg)
		switch {
		case err == nil:
			continue
		case !errors.As(err, new(*CorruptError)):
			return err
		case h == nil && seg.ordinal-before <= maxGap:
			continue
		}
		found.strays = append(found.strays, stray{seg.path, err})
		found.segments = slices.Delete(found.segments, k, k+1)
	}
	return nil
}

// keep returns those of segments that are of this log and whose header passes
// check; the others are strays.
func (s *Store) keep(found *files, segments []*segment, check func(*header) error) (kept []*segment, err error) {
	for _, seg := range segments {
		h, err := s.peek(seg)
		if err == nil {
			err = errors.Join(s.options.Owner.foreign(h.owner), check(h))
		} else if !errors.As(err, new(*CorruptError)) {
			return nil, err
		}
		if err != nil {
			found.strays = append(found.strays, stray{seg.path, err})
			continue
		}
		kept = append(kept, seg)
	}
	return kept, nil
}

// leaveTwins keeps one segment of each ordinal: one with a valid header, rather
// one that was mended, since a mended segment took another one's place.
func (s *Store) leaveTwins(found *files) error {
	for k := 1; k < len(found.segments); {
		a, b := found.segments[k-1], found.segments[k]
		if a.ordinal != b.ordinal {
			k++
			continue
		}
		rankA, err := s.rank(a)
		if err != nil {
			return err
		}
		rankB, err := s.rank(b)
		if err != nil {
			return err
		}
		out, by := k, a
		if rankB > rankA {
			out, by = k-1, b
		}
		found.strays = append(found.strays, stray{found.segments[out].path, fmt.Errorf("it is not segment %d, which is %s", by.ordinal, filepath.Base(by.path))})
		found.segments = slices.Delete(found.segments, out, out+1)
	}
	return nil
}

// rank is how likely a file is the segment that its name says.
func (s *Store) rank(seg *segment) (int, error) {
	h, err := s.peek(seg)
	switch {
	case errors.As(err, new(*CorruptError)):
		return 0, nil
	case err != nil:
		return 0, err
	case s.options.Owner.foreign(h.owner) != nil:
		return 0, nil
	case h.mended():
		return 2, nil
	}
	return 1, nil
}

// setStraysAside gives strays names that nothing reads.
func (s *Store) setStraysAside(strays []stray) error {
	for _, stray := range strays {
		s.options.Logger.Error("a file is not part of the log that it was found with; it is set aside", "file", stray.path, "reason", stray.reason)
		if err := s.setAside(stray.path); err != nil {
			return fmt.Errorf("set aside what is not part of the log: %w", err)
		}
	}
	if len(strays) == 0 {
		return nil
	}
	return s.syncDir()
}
