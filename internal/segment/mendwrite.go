package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// Finish makes new segments of what is here and what was given, and puts them
// in the place of the damaged ones, which are kept aside. Then the Mender is
// closed, and Open opens the log. It is refused while something is missing.
//
// A crash leaves the log as it was before, or the next Open or OpenMender goes
// on from there. After an error open the log anew, for mending or for use.
func (m *Mender) Finish() (MendReport, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done != nil {
		return MendReport{}, m.done
	}
	if wants := m.wants(1); len(wants) > 0 {
		return MendReport{}, fmt.Errorf("finish mending: entries %d to %d are still missing", wants[0].First, wants[0].Last)
	}
	r, err := m.finish()
	m.done = ErrClosed
	err = errors.Join(err, m.reader.close(), m.given.close())
	if err != nil {
		return r, fmt.Errorf("finish mending the log in %s: %w", m.store.dir, err)
	}
	return r, nil
}

func (m *Mender) finish() (MendReport, error) {
	r := MendReport{Entries: m.given.entries, Bytes: m.given.bytes}
	made, err := m.remake()
	if err != nil {
		return r, err
	}
	r.Segments = len(made)
	if m.live != nil {
		return r, m.live.exchange(m.made)
	}
	s := m.store
	before, err := s.list()
	if err != nil {
		return r, err
	}
	for _, name := range made {
		if err := s.fs.Rename(name+temporarySuffix, name); err != nil {
			return r, err
		}
	}
	found, err := s.list()
	if err != nil {
		return r, err
	}
	if len(made) > 0 {
		if err := s.swapMends(found); err != nil {
			return r, err
		}
	}
	for _, index := range m.log.spoiled {
		if err := s.setAside(s.snapshotPath(index)); err != nil {
			return r, err
		}
	}
	if err := s.setStraysAside(m.log.strays); err != nil {
		return r, err
	}
	if m.skips != nil {
		if err := s.moveBegin(m.log.parts[0].ordinal, m.log.picture.first); err != nil {
			return r, err
		}
	}
	if err := s.syncDir(); err != nil {
		return r, err
	}
	if m.end != nil {
		s.witness = m.log.store.witness
		if err := s.tell(*m.end); err != nil {
			return r, err
		}
	}
	after, err := s.list()
	if err != nil {
		return r, err
	}
	r.Aside = after.aside[len(before.aside):]
	return r, nil
}

// remake writes the new segments and returns what their names are to be.
func (m *Mender) remake() (made []string, err error) {
	parts := m.log.parts
	for a := 0; a < len(parts); a++ {
		if !parts[a].damaged {
			continue
		}
		b := a
		for b+1 < len(parts) && parts[b+1].damaged {
			b++
		}
		names, err := m.remakeGroup(a, b)
		if err != nil {
			return nil, err
		}
		made = append(made, names...)
		a = b
	}
	return made, nil
}

// remakeGroup writes the damaged parts [a, b] anew. Each begins where the first
// entry is that is in it, or was lost in it; it ends where the next begins. All
// entries in between are written, of whatever part they were: what was lost
// there had superseded some of a part before, and they are hidden so again.
func (m *Mender) remakeGroup(a, b int) (names []string, err error) {
	begins := m.beginsOf(a, b)
	w := &remaker{mender: m}
	for k := a; k <= b; k++ {
		h, err := m.headerFor(k, begins[k-a], w.last)
		if err != nil {
			return nil, err
		}
		name := filepath.Join(m.store.dir, segmentName(h.ordinal, h.first)+mendSuffix)
		// Several that were lost in one piece share it.
		split := k < b && begins[k-a+1] == begins[k-a+2]
		end, err := w.write(name+temporarySuffix, h, begins[k-a+1], split)
		if err != nil {
			return nil, err
		}
		begins[k-a+1] = end
		names = append(names, name)
		m.made = append(m.made, remade{name, h, w.last})
		if k == len(m.log.parts)-1 {
			m.end = &testimony{
				ordinal: h.ordinal, salt: h.salt, position: w.position,
				term: h.hard.Term, vote: h.hard.Vote, last: end - 1,
			}
		}
	}
	return names, nil
}

// beginsOf returns where each of the parts [a, b] begins, and where they end.
func (m *Mender) beginsOf(a, b int) []uint64 {
	p, parts := &m.log.picture, m.log.parts
	begins := make([]uint64, b-a+2)
	begins[b-a+1] = p.next()
	for _, later := range parts[b+1:] {
		begins[b-a+1] = min(begins[b-a+1], later.firstOr(p.next()))
	}
	for k := range begins[:b-a+1] {
		begins[k] = begins[b-a+1]
	}
	for _, s := range p.spans {
		if k := int64(s.home) - int64(parts[a].ordinal); k >= 0 && k <= int64(b-a) {
			begins[k] = min(begins[k], s.first)
		}
	}
	for k := b - a; k >= 0; k-- {
		begins[k] = min(begins[k], begins[k+1])
	}
	return begins
}

// firstOr is the index in the part's name, if that is known.
func (p *part) firstOr(otherwise uint64) uint64 {
	if p.first == 0 {
		return otherwise
	}
	return p.first
}

// headerFor makes the header of part k, which is to begin at the entry first.
// before is the index of the one that was made just before it, if any.
func (m *Mender) headerFor(k int, first uint64, before *index) (*header, error) {
	p := &m.log.parts[k]
	h := &header{ordinal: p.ordinal, first: first, hard: m.log.hard, owner: m.store.options.Owner}
	var salt [8]byte
	if _, err := io.ReadFull(m.store.options.Rand, salt[:]); err != nil {
		return nil, fmt.Errorf("draw a salt: %w", err)
	}
	h.salt = binary.LittleEndian.Uint64(salt[:])
	for _, q := range m.log.parts[k:] {
		if q.header != nil {
			h.conf = q.header.conf
			break
		}
	}
	if p.header != nil {
		h.endBefore, h.footerBefore, h.saltBefore = p.header.endBefore, p.header.footerBefore, p.header.saltBefore
	} else if k > 0 {
		h.endBefore, h.footerBefore = max(m.log.parts[k-1].end, headerSize), m.log.parts[k-1].footer
		if before := m.log.parts[k-1].header; before != nil {
			h.saltBefore = before.salt
		}
	}
	if p.header != nil && p.header.first == first && before == nil && m.skips == nil {
		h.termBefore, h.start, h.time, h.bytesBefore = p.header.termBefore, p.header.start, p.header.time, p.header.bytesBefore
		return h, nil
	}
	return h, m.place(h, k, before)
}

// place fills in what a header tells of the entries before its first.
func (m *Mender) place(h *header, k int, before *index) (err error) {
	if h.termBefore, err = m.termBefore(h.first); err != nil {
		return err
	}
	h.start = m.log.picture.nextOffset
	if s := m.certain(h.first); s != nil {
		if h.start, err = m.startOf(s, h.first); err != nil {
			return err
		}
	}
	if before != nil {
		h.start, h.time, h.bytesBefore = before.nextOffset, before.time, before.bytes
		return nil
	}
	if s := m.certain(h.first - 1); s != nil {
		f, err := m.reader.header(s, h.first-1)
		if err != nil {
			return err
		}
		h.time = f.time
	}
	for _, q := range m.log.parts[k:] {
		if q.header != nil && q.header.first >= h.first {
			bytes, err := m.weigh(h.first, q.header.first)
			h.bytesBefore = q.header.bytesBefore - min(bytes, q.header.bytesBefore)
			return err
		}
	}
	return nil
}

// termBefore returns the term of the entry before i.
func (m *Mender) termBefore(i uint64) (uint64, error) {
	if s := m.certain(i - 1); s != nil {
		return s.term, nil
	}
	if m.skips != nil {
		return m.skips.term, nil
	}
	if h := m.log.parts[m.log.from].header; h != nil {
		return h.termBefore, nil
	}
	term, _, err := m.store.readSnapshot(i - 1) // it is there, or the log could not be mended
	return term, err
}

// weigh adds up the payload of the entries [from, to).
func (m *Mender) weigh(from, to uint64) (bytes uint64, err error) {
	for from < to {
		s := m.certain(from)
		if s == nil {
			return bytes, nil // the log ends
		}
		err := m.reader.frames(s, from, min(to-1, s.last), func(h *frameHeader, _ int64) (bool, error) {
			bytes += uint64(h.length)
			return true, nil
		})
		if err != nil {
			return 0, err
		}
		from = s.last + 1
	}
	return bytes, nil
}

// remaker writes segments one after the other.
type remaker struct {
	mender *Mender
	last   *index // of the segment written last

	file     File
	header   *header
	position int64
	buffer   []byte
	before   uint32
}

// write makes the segment h of the entries up to end, exclusive, durable but for
// its name. If split, it ends early when it is full. Its first block comes
// last: it tells where the footer is.
func (w *remaker) write(path string, h *header, end uint64, split bool) (uint64, error) {
	m := w.mender
	if err := m.store.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	file, err := m.store.fs.Create(path)
	if err != nil {
		return 0, fmt.Errorf("make a segment anew: %w", err)
	}
	w.file, w.header, w.position, w.buffer = file, h, headerSize, w.buffer[:0]
	w.before = uint32(h.salt) // see link
	end, err = w.fill(end, split)
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, fmt.Errorf("make segment %s anew: %w", path, err)
	}
	return end, nil
}

func (w *remaker) fill(end uint64, split bool) (uint64, error) {
	m, x := w.mender, newIndex(w.header)
	full := func() bool { return split && w.position > m.store.options.SegmentBytes }
	for x.next < end && !full() {
		s := m.certain(x.next)
		if s == nil {
			return 0, fmt.Errorf("entry %d is not whole", x.next)
		}
		var failed error
		err := m.reader.entries(s, x.next, min(s.last, end-1), func(f Frame) bool {
			h := f.header()
			at := w.position
			failed = w.add(&h, f.Payload)
			x.add(&h, at)
			return failed == nil && !full()
		})
		if err = errors.Join(err, failed); err != nil {
			return 0, err
		}
	}
	payload := x.encode(nil)
	if len(payload) > maxPayload {
		return 0, fmt.Errorf("its footer would have %d bytes: %w", len(payload), errFooter)
	}
	w.header.footer = w.position
	footer := frameHeader{length: uint32(len(payload)), kind: footerFrame, index: x.next - 1, payloadCRC: checksum(payload)}
	if err := w.add(&footer, payload); err != nil {
		return 0, err
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	if _, err := w.file.WriteAt(w.header.encode(), 0); err != nil {
		return 0, err
	}
	w.last = x
	return x.next, w.file.Datasync()
}

// add writes a frame. It vouches for all in front of it, since the file gets its
// name when it is durable.
func (w *remaker) add(h *frameHeader, payload []byte) error {
	h.salt, h.synced, h.before = w.header.salt, w.position, w.before
	at := len(w.buffer)
	w.buffer = append(w.buffer, make([]byte, h.size())...)
	h.encode(w.buffer[at:], w.position)
	copy(w.buffer[at+frameHeaderSize:], payload)
	w.position += h.size()
	w.before = h.headerCRC
	if len(w.buffer) < scanChunk {
		return nil
	}
	return w.flush()
}

func (w *remaker) flush() error {
	if len(w.buffer) == 0 {
		return nil
	}
	_, err := w.file.WriteAt(w.buffer, w.position-int64(len(w.buffer)))
	w.buffer = w.buffer[:0]
	return err
}
