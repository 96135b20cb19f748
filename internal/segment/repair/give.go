package repair

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// Give takes those of frames that are wanted and proven to belong here, and
// reports how many. The frames are a piece without gaps of one giver's log, of
// which it knows that the entries up to committed are committed.
//
// Others may have gone another way than this replica, in entries that were not
// committed: what they have at an index need not be what was here. Two histories
// must not be put together, for Raft takes it from then on that an entry here
// stands for all in front of it. What can be told follows from two of its
// properties. Log matching: (index, term) names an entry and all in front of it.
// Leader completeness: what is committed is in front of all that ever counts.
//
// Each of these proves that an entry is the one which was here:
//
//   - It is committed there, and so is what was here. An entry that is here,
//     which the giver has too and knows to be committed, is committed with all
//     in front of it.
//   - Its frame's header is here, and has the same term and CRC.
//   - What follows the gap has its term: the leader of a term makes one entry of
//     an index, and never takes it back.
//   - It is followed, in the piece, by an entry that is here or has been proven.
//     That is why one more than wanted is asked for.
//
// That it is committed there, and nothing known of that here, proves nothing:
// what was here may have lost. With one exception. If nothing is known of what
// was here from it on, to the end of the log, it may take that place, in a row
// with what is known to be committed: what was there and differed can never
// count, whomever it was promised to. Nothing in front of it is in the way then,
// since what was lost may have truncated all that was not committed.
//
// ErrNotRepairable: what others have committed is not what is here, so what is here
// behind it never counted, and nobody need have what is missing of it. Any other
// error is one of the disk.
func (m *Repairer) Give(frames []segment.Frame, committed uint64) (taken int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done != nil {
		return 0, m.done
	}
	proven, lost := m.prove(frames, committed)
	for from := 0; from < len(frames); {
		to := from
		for to < len(frames) && proven[to] && (to == from || frames[to].Index == frames[to-1].Index+1) {
			to++
		}
		if to == from {
			from++
			continue
		}
		n, err := m.take(frames[from:to])
		taken += n
		if err != nil {
			return taken, fmt.Errorf("repair log in %s: %w", m.dir.Path, err)
		}
		from = to
	}
	return taken, m.forsaken(lost)
}

// prove tells which frames are wanted, and belong here, and learns what is
// committed. lost is the first index at which something else was here than what
// others have committed; 0: none.
func (m *Repairer) prove(frames []segment.Frame, committed uint64) (proven []bool, lost uint64) {
	proven = make([]bool, len(frames))
	follows := false // the frame behind was here
	for k := len(frames) - 1; k >= 0; k-- {
		f := &frames[k]
		if k+1 < len(frames) && frames[k+1].Index != f.Index+1 {
			follows = false
		}
		at := m.log.inventory.at(f.Index)
		if at < 0 || !valid(f) {
			follows = false
			continue
		}
		s := &m.log.inventory.spans[at]
		known, same := s.tells(f)
		follows = same || follows && !known
		proven[k] = follows && !s.sound()
		switch {
		case f.Index > committed:
		case follows:
			m.commit = max(m.commit, f.Index)
		case known:
			lost = f.Index
		}
	}
	for k := range frames {
		f := &frames[k]
		if at := m.log.inventory.at(f.Index); at >= 0 && valid(f) && f.Index <= committed && !proven[k] {
			contradicts := false
			proven[k], contradicts = m.counts(f, at)
			if contradicts && (lost == 0 || f.Index < lost) {
				lost = f.Index
			}
		}
	}
	return proven, lost
}

// counts reports whether f, which is committed and wanted in the span numbered at,
// can be taken for that alone, or else whether it contradicts what is known of
// the entry that was here.
func (m *Repairer) counts(f *segment.Frame, at int) (yes, contradicts bool) {
	s := &m.log.inventory.spans[at]
	known, _ := s.tells(f)
	switch {
	case known:
	case f.Index <= m.commit:
		return true, false
	case m.log.inventory.toldFrom(at + 1): // what follows decides
	case !s.loose() && f.Index < s.last: // the last of them does
	case !s.loose(), f.Term > m.log.hard.Term:
		return false, true // what was here was of another term
	case f.Index == m.commit+1:
		m.commit = f.Index
		return true, false
	}
	return false, false
}

// tells reports whether it is known which entry is that of f, and whether f is it.
func (s *span) tells(f *segment.Frame) (known, same bool) {
	switch {
	case s.loose():
		return false, false
	case s.kind == whole:
		return true, s.term == f.Term
	case s.kind == broken:
		return true, s.term == f.Term && s.crc == f.CRC
	}
	return f.Term > s.term, f.Term == s.term
}

// loose reports whether nothing is known of the entries of s.
func (s *span) loose() bool { return s.doubt != 0 || s.kind == missing && s.term == 0 }

// toldFrom reports whether anything is known of the entries from the span
// numbered k on.
func (p *inventory) toldFrom(k int) bool {
	return slices.ContainsFunc(p.spans[k:], func(s span) bool { return !s.loose() })
}

// forsaken returns ErrNotRepairable if something is missing that nobody can be
// expected to have, since from the entry lost on others have gone another way.
// What is missing further down can still be proven by what follows it.
func (m *Repairer) forsaken(lost uint64) error {
	if lost == 0 {
		return nil
	}
	for _, s := range m.log.inventory.spans {
		if !s.sound() && (s.last >= lost || s.last+1 == lost && (s.kind == missing || s.doubt != 0)) {
			return fmt.Errorf("repair log in %s: %w: others have committed another entry %d than was here, and entries %d to %d are missing",
				m.dir.Path, ErrNotRepairable, lost, s.first, s.last)
		}
	}
	return nil
}

// valid reports whether f can be an entry of any log.
func valid(f *segment.Frame) bool {
	return len(f.Payload) <= format.MaxPayload && f.First >= 0 && f.Index > 0 && format.Checksum(f.Payload) == f.CRC
}

// take takes proven frames that follow each other, if they fit those beside
// them: a giver may be wrong.
func (m *Repairer) take(frames []segment.Frame) (taken int, err error) {
	for k := 1; k < len(frames); k++ {
		if !follows(&frames[k], frames[k-1].Term, frames[k-1].End()) {
			return 0, nil
		}
	}
	first, last := &frames[0], &frames[len(frames)-1]
	if s := m.certain(first.Index - 1); s != nil {
		stop, err := m.stopOf(s, first.Index-1)
		if err != nil || !follows(first, s.term, stop) {
			return 0, err
		}
	}
	if s := m.certain(last.Index + 1); s != nil {
		start, err := m.startOf(s, last.Index+1)
		if err != nil || last.Term > s.term || last.End() > start {
			return 0, err
		}
	}
	for k := range frames {
		if err := m.takeOne(&frames[k]); err != nil {
			return taken, err
		}
		taken++
	}
	return taken, nil
}

// follows reports whether f can follow an entry of that term that ends there.
// A trim beyond the end leaves offsets out, so they need not be dense.
func follows(f *segment.Frame, term uint64, stop record.Offset) bool {
	return term <= f.Term && stop <= f.First
}

// takeOne puts an entry where it was wanted.
func (m *Repairer) takeOne(f *segment.Frame) error {
	p := &m.log.inventory
	s := p.spans[p.at(f.Index)]
	if s.kind == whole && s.term == f.Term {
		if h, err := m.reader.header(&s, f.Index); err != nil {
			return err
		} else if h.PayloadCRC == f.CRC {
			// It is here, and was in doubt.
			s.first, s.last, s.doubt, s.start, s.stop = f.Index, f.Index, 0, f.First, f.End()
			p.put(s)
			return nil
		}
	}
	home := s.home
	if s.doubt != 0 && s.kind != missing {
		home = p.losses[s.doubt-1]
	}
	joins := m.given.newest == f.Index-1
	position, err := m.given.add(f)
	if err != nil {
		return err
	}
	p.put(span{
		first: f.Index, last: f.Index, kind: whole, term: f.Term, home: home,
		from: m.given.source, begin: position, start: f.First, stop: f.End(),
	})
	if joins {
		p.join(p.at(f.Index))
	}
	return nil
}

// join makes one span of the one numbered k and the one before, whose frames
// follow each other, if it can.
func (p *inventory) join(k int) {
	if k == 0 {
		return
	}
	a, b := &p.spans[k-1], &p.spans[k]
	if a.sound() && a.from == b.from && a.term == b.term && a.home == b.home {
		a.last, a.stop = b.last, b.stop
		p.spans = append(p.spans[:k], p.spans[k+1:]...)
	}
}

// givenFile keeps what was given, as frames, until the new segments are made of
// it. It is gone with the Repairer.
type givenFile struct {
	dir      *store.Dir
	source   *source
	file     vfs.File
	position int64
	newest   uint64 // index of the entry that was added last
	entries  uint64
	bytes    int64
}

func (g *givenFile) init(d *store.Dir) {
	g.dir, g.source = d, &source{path: filepath.Join(d.Path, store.GivenName), salt: 1}
}

// add returns the position of the frame of f.
func (g *givenFile) add(f *segment.Frame) (int64, error) {
	if g.file == nil {
		var err error
		if g.file, err = g.dir.FS.Create(g.source.path); err != nil {
			return 0, fmt.Errorf("keep what was given: %w", err)
		}
	}
	h := format.EntryHeader(f)
	h.Salt = g.source.salt
	b := make([]byte, h.Size())
	h.Encode(b, g.position)
	copy(b[format.FrameHeaderSize:], f.Payload)
	if _, err := g.file.WriteAt(b, g.position); err != nil {
		return 0, fmt.Errorf("keep what was given: %w", err)
	}
	position := g.position
	g.position += h.Size()
	g.newest = f.Index
	g.entries++
	g.bytes += int64(len(f.Payload))
	return position, nil
}

func (g *givenFile) close() error {
	if g.file == nil {
		return nil
	}
	file := g.file
	g.file = nil
	return errors.Join(file.Close(), g.dir.FS.Remove(g.source.path))
}
