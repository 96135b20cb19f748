package repair

import (
	"errors"
	"fmt"
	"path/filepath"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// stock holds the entries that a repair has: those that are whole here and those that were given.
type stock struct {
	*inventory
	reader spanReader
	given  givenFile
}

func (k *stock) close() error { return errors.Join(k.reader.close(), k.given.close()) }

// take adds consecutive proven frames if they fit the adjacent entries. They may not fit, because
// the giver may be wrong.
func (k *stock) take(frames []segment.Entry) (taken int, err error) {
	for i := 1; i < len(frames); i++ {
		if !follows(&frames[i], frames[i-1].Term, frames[i-1].End()) {
			return 0, nil
		}
	}
	first, last := &frames[0], &frames[len(frames)-1]
	if s := k.certain(first.Index - 1); s != nil {
		stop, err := k.stopOf(s, first.Index-1)
		if err != nil || !follows(first, s.term, stop) {
			return 0, err
		}
	}
	if s := k.certain(last.Index + 1); s != nil {
		start, err := k.startOf(s, last.Index+1)
		if err != nil || last.Term > s.term || last.End() > start {
			return 0, err
		}
	}
	for i := range frames {
		if err := k.takeOne(&frames[i]); err != nil {
			return taken, err
		}
		taken++
	}
	return taken, nil
}

// takeOne puts an entry where it is wanted.
func (k *stock) takeOne(f *segment.Entry) error {
	p := k.inventory
	s := p.spans[p.at(f.Index)]
	if s.kind == whole && s.term == f.Term {
		if h, err := k.reader.header(&s, f.Index); err != nil {
			return err
		} else if h.PayloadCRC == f.CRC {
			// The entry is here, and was in doubt.
			s.first, s.last, s.doubt, s.start, s.stop = f.Index, f.Index, 0, f.First, f.End()
			p.put(s)
			return nil
		}
	}
	home := s.home
	if s.doubt != 0 && s.kind != missing {
		home = p.losses[s.doubt-1]
	}
	joins := k.given.newest == f.Index-1
	position, err := k.given.add(f)
	if err != nil {
		return err
	}
	p.put(span{
		first: f.Index, last: f.Index, kind: whole, term: f.Term, home: home,
		from: k.given.source, begin: position, start: f.First, stop: f.End(),
	})
	if joins {
		p.join(p.at(f.Index))
	}
	return nil
}

// certain returns the span of entry i if it is known which entry that is, and nil otherwise.
func (k *stock) certain(i uint64) *span {
	at := k.at(i)
	if at < 0 || k.spans[at].kind == missing || k.spans[at].doubt != 0 {
		return nil
	}
	return &k.spans[at]
}

// startOf returns the first offset of entry i of s. stopOf returns the offset behind its last
// record.
func (k *stock) startOf(s *span, i uint64) (record.Offset, error) {
	if s.first == i && s.start != unknownOffset || s.kind == broken {
		return s.start, nil
	}
	h, err := k.reader.header(s, i)
	return h.First, err
}

func (k *stock) stopOf(s *span, i uint64) (record.Offset, error) {
	if s.last == i && s.stop != unknownOffset || s.kind == broken {
		return s.stop, nil
	}
	h, err := k.reader.header(s, i)
	return h.First + record.Offset(h.Count), err
}

// weigh returns the total payload size of the entries [from, to).
func (k *stock) weigh(from, to uint64) (bytes uint64, err error) {
	for from < to {
		s := k.certain(from)
		if s == nil {
			return bytes, nil // the log ends
		}
		err := k.reader.frames(s, from, min(to-1, s.last), func(h *format.FrameHeader, _ int64) (bool, error) {
			bytes += uint64(h.Length)
			return true, nil
		})
		if err != nil {
			return 0, err
		}
		from = s.last + 1
	}
	return bytes, nil
}

// follows reports whether f can follow an entry of the given term whose offsets end at stop. A
// trim beyond the end skips offsets, so they need not be contiguous.
func follows(f *segment.Entry, term uint64, stop record.Offset) bool {
	return term <= f.Term && stop <= f.First
}

// givenFile stores the entries that were given, as frames, until the new segments are written. It
// is removed with the Repairer.
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

// add appends the frame of f and returns its position.
func (g *givenFile) add(f *segment.Entry) (int64, error) {
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
