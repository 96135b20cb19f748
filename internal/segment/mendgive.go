package segment

import (
	"errors"
	"fmt"
	"path/filepath"

	"strandline.dev/internal/record"
)

// Give takes those of frames that are wanted and proven to belong here, and
// tells how many. The frames are a piece without gaps of one giver's log, of
// which it knows that the entries up to committed are committed. An entry is
// proven by one of these:
//
//   - It is committed: then it is the entry of that index.
//   - Its frame's header is here, and has the same term and CRC.
//   - What follows the gap has the same term: the leader of a term makes one
//     entry of an index, and what it follows is what all follow.
//   - It is followed, in the piece, by an entry that is here or has been proven,
//     for the same reason. That is why one more than wanted should be asked for.
//
// ErrForgotten: what others have committed does not fit what is here, so what is
// here behind it never counted; which of it this replica promised to keep is not
// told. Any other error is one of the disk.
func (m *Mender) Give(frames []Frame, committed uint64) (taken int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done != nil {
		return 0, m.done
	}
	proven := m.prove(frames, committed)
	for from := 0; from < len(frames); {
		to := from
		for to < len(frames) && proven[to] && (to == from || frames[to].Index == frames[to-1].Index+1) {
			to++
		}
		if to == from {
			from++
			continue
		}
		n, err := m.take(frames[from:to], committed)
		taken += n
		if err != nil {
			return taken, fmt.Errorf("mend log in %s: %w", m.store.dir, err)
		}
		from = to
	}
	return taken, nil
}

// prove tells which frames are wanted, and belong here.
func (m *Mender) prove(frames []Frame, committed uint64) []bool {
	proven := make([]bool, len(frames))
	follows := false // the frame behind is here
	for k := len(frames) - 1; k >= 0; k-- {
		f := &frames[k]
		if k+1 < len(frames) && frames[k+1].Index != f.Index+1 {
			follows = false
		}
		at := m.log.picture.at(f.Index)
		if at < 0 || !f.valid() {
			follows = false
			continue
		}
		s := &m.log.picture.spans[at]
		if s.sound() {
			follows = s.term == f.Term
			continue
		}
		switch {
		case follows, f.Index <= committed:
			proven[k] = true
		case s.kind == broken && s.doubt == 0:
			proven[k] = s.term == f.Term && s.crc == f.CRC
		case s.kind == missing:
			proven[k] = s.term != 0 && s.term == f.Term
		}
		follows = proven[k]
	}
	return proven
}

// valid reports whether f can be an entry of any log.
func (f *Frame) valid() bool {
	return len(f.Payload) <= maxPayload && f.First >= 0 && f.Index > 0 && checksum(f.Payload) == f.CRC
}

// take takes proven frames that follow each other, if they fit those beside
// them.
func (m *Mender) take(frames []Frame, committed uint64) (taken int, err error) {
	for k := 1; k < len(frames); k++ {
		if !frames[k].follows(frames[k-1].Term, frames[k-1].end()) {
			return 0, nil
		}
	}
	first, last := &frames[0], &frames[len(frames)-1]
	fits := true
	if s := m.certain(first.Index - 1); s != nil {
		stop, err := m.stopOf(s, first.Index-1)
		if err != nil {
			return 0, err
		}
		fits = first.follows(s.term, stop)
	}
	if s := m.certain(last.Index + 1); s != nil {
		start, err := m.startOf(s, last.Index+1)
		if err != nil {
			return 0, err
		}
		fits = fits && last.Term <= s.term && last.end() <= start
	}
	if !fits && first.Index > m.log.hard.Commit && last.Index <= committed {
		return 0, fmt.Errorf("%w: entries %d to %d are committed, and do not fit what is here beside them",
			ErrForgotten, first.Index, last.Index)
	}
	if !fits {
		return 0, nil
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
func (f *Frame) follows(term uint64, stop record.Offset) bool {
	return term <= f.Term && stop <= f.First
}

func (f *Frame) end() record.Offset { return f.First + record.Offset(f.Count) }

// header is that of the frame of f, wherever it is.
func (f *Frame) header() frameHeader {
	return frameHeader{
		length: uint32(len(f.Payload)), kind: entryFrame, entryType: f.Type,
		index: f.Index, term: f.Term, first: f.First, count: f.Count, time: f.Time, payloadCRC: f.CRC,
	}
}

// takeOne puts an entry where it was wanted.
func (m *Mender) takeOne(f *Frame) error {
	p := &m.log.picture
	s := p.spans[p.at(f.Index)]
	if s.kind == whole && s.term == f.Term {
		if h, err := m.reader.header(&s, f.Index); err != nil {
			return err
		} else if h.payloadCRC == f.CRC {
			// It is here, and was in doubt.
			s.first, s.last, s.doubt, s.start, s.stop = f.Index, f.Index, 0, f.First, f.end()
			p.put(s)
			return nil
		}
	}
	home := s.home
	if s.doubt != 0 {
		home = p.losses[s.doubt-1]
	}
	joins := m.given.newest == f.Index-1
	position, err := m.given.add(f)
	if err != nil {
		return err
	}
	p.put(span{
		first: f.Index, last: f.Index, kind: whole, term: f.Term, home: home,
		from: m.given.source, begin: position, start: f.First, stop: f.end(),
	})
	if joins {
		p.join(p.at(f.Index))
	}
	return nil
}

// join makes one span of the one numbered k and the one before, whose frames
// follow each other, if it can.
func (p *picture) join(k int) {
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
// it. It is gone with the Mender.
type givenFile struct {
	store    *Store
	source   *source
	file     File
	position int64
	newest   uint64 // index of the entry that was added last
	entries  uint64
	bytes    int64
}

const givenName = "given" + temporarySuffix

func (g *givenFile) init(s *Store) {
	g.store, g.source = s, &source{path: filepath.Join(s.dir, givenName), salt: 1}
}

// add returns the position of the frame of f.
func (g *givenFile) add(f *Frame) (int64, error) {
	if g.file == nil {
		var err error
		if g.file, err = g.store.fs.Create(g.source.path); err != nil {
			return 0, fmt.Errorf("keep what was given: %w", err)
		}
	}
	h := f.header()
	h.salt = g.source.salt
	b := make([]byte, h.size())
	h.encode(b, g.position)
	copy(b[frameHeaderSize:], f.Payload)
	if _, err := g.file.WriteAt(b, g.position); err != nil {
		return 0, fmt.Errorf("keep what was given: %w", err)
	}
	position := g.position
	g.position += h.size()
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
	return errors.Join(file.Close(), g.store.fs.Remove(g.source.path))
}
