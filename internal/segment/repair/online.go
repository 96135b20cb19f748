package repair

import (
	"errors"
	"fmt"
	"io/fs"

	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// BeginOnline begins the repair of a segment file of an open log. The log stays open: writes and
// reads continue, except for reads of the damaged entries. Entries up to committed are committed
// and never change. That alone proves that an entry that another replica knows to be committed
// belongs here, so nothing else of the log is read. Finish replaces the damaged segment with the
// repaired one.
//
// If forged is not 0, the entry of that index is not what was appended, although its checksums
// match.
//
// The error is ErrTrimmed if the segment has left the log. A log can have one repair at a time.
func BeginOnline(s *store.Store, path string, committed, forged uint64) (*Repairer, error) {
	m, err := openRepair(s, path, committed, forged)
	if err != nil {
		return nil, fmt.Errorf("repair %s: %w", path, err)
	}
	return m, nil
}

func openRepair(s *store.Store, path string, committed, forged uint64) (*Repairer, error) {
	group, next, err := s.RepairGroup(path, committed)
	if err != nil {
		return nil, err
	}
	m := &Repairer{log: &surveyor{layout: layout{dir: s.Dir}, hard: s.HardState()}, live: s}
	m.begin(s.Dir, committed)
	m.log.inventory.first, m.log.inventory.commit = group[0].First, committed
	for i, g := range group {
		behind := next.Header
		if i+1 < len(group) {
			behind = group[i+1].Header
		}
		if err := m.log.inventory.addComplete(s.FS, g, behind, forged); err != nil {
			return nil, err
		}
		m.log.parts = append(m.log.parts, part{
			ordinal: g.Ordinal, first: g.First, path: g.Path, size: g.Size, header: g.Header, damaged: true,
		})
	}
	m.log.parts = append(m.log.parts, part{ordinal: next.Ordinal, first: next.First, path: next.Path, header: next.Header})
	return m, nil
}

// addComplete adds the entries of a segment to the inventory. The index says which frames are
// valid: without one, all entries are missing. behind is the header of the next segment; nil if
// it is lost.
func (p *inventory) addComplete(disk vfs.FS, g store.CompleteSegment, behind *format.Header, forged uint64) error {
	defer func() {
		if p.next() < g.End {
			p.lose(g.Ordinal)
			p.reach(g.End, 0)
		}
	}()
	file, err := disk.Open(g.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	err = p.addRuns(file, g, behind, forged)
	return errors.Join(err, file.Close())
}

func (p *inventory) addRuns(file vfs.File, g store.CompleteSegment, behind *format.Header, forged uint64) error {
	h, x := g.Header, g.Index
	if h == nil && behind != nil && behind.SaltBefore != 0 {
		h = &format.Header{Salt: behind.SaltBefore, First: g.First}
	}
	if h == nil {
		return nil
	}
	footer := h.Footer
	if footer == 0 && behind != nil {
		footer = behind.FooterBefore
	}
	if x == nil && footer >= format.HeaderSize {
		x, _ = store.ReadFooter(file, h, footer) // a footer that cannot be read is lost
	}
	if x == nil {
		return nil
	}
	from := &source{g.Path, h.Salt}
	for i, r := range x.Runs {
		stop := min(x.Next, g.End)
		if i+1 < len(x.Runs) {
			stop = min(stop, x.Runs[i+1].First)
		}
		w := store.NewWalker(file, g.Path, h.Salt, r.End, true)
		w.MoveTo(r.Begin)
		if err := p.addRun(w, stop, g.Ordinal, from, forged); err != nil {
			return err
		}
	}
	return nil
}

// addRun adds the entries up to stop. w is at the start of a run, in which each frame is valid.
func (p *inventory) addRun(w *format.Walker, stop uint64, home uint64, from *source, forged uint64) error {
	for p.next() < stop && w.Position < w.End {
		if !w.Next() || w.Frame.Kind == format.EntryFrame && (w.Frame.Index < p.next() || w.Frame.Index >= stop) {
			if w.Err != nil || w.Position >= w.End {
				return w.Err
			}
			p.lose(home)
			if w.Search(w.Position + format.FrameAlignment); w.Err != nil {
				return w.Err
			}
			w.MoveTo(w.Position)
			continue
		}
		h, position, kind := &w.Frame, w.Position, whole
		if _, ok := w.Payload(); w.Err != nil {
			return w.Err
		} else if !ok {
			kind = broken
			w.Pass()
		}
		if h.Kind == format.EntryFrame && h.Index != forged {
			if h.Index > p.next() {
				p.lose(home)
			}
			p.entry(h, kind, home, from, position)
		}
	}
	return nil
}
