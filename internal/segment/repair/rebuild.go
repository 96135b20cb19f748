package repair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// Finish makes new segments of what is here and what was given, and puts them
// in the place of the damaged ones, which are kept aside. Then the Repairer is
// closed, and Open opens the log. It is refused while something is missing.
//
// A crash leaves the log as it was before, or the next Open or Begin goes
// on from there. After an error open the log anew, for repair or for use.
func (m *Repairer) Finish() (Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done != nil {
		return Outcome{}, m.done
	}
	if wants := m.wants(1); len(wants) > 0 {
		return Outcome{}, fmt.Errorf("finish the repair: entries %d to %d are still missing", wants[0].First, wants[0].Last)
	}
	r, err := m.finish()
	m.done = segment.ErrClosed
	err = errors.Join(err, m.reader.close(), m.given.close())
	if err != nil {
		err = errors.Join(err, m.removeUnfinished())
		return r, fmt.Errorf("finish the repair of the log in %s: %w", m.dir.Path, err)
	}
	return r, nil
}

// removeUnfinished gives the disk back what a repair that failed has written of new
// segments. The next start does so too.
func (m *Repairer) removeUnfinished() (err error) {
	for _, path := range append(m.temporary, m.given.source.path) {
		if e := m.dir.FS.Remove(path); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func (m *Repairer) finish() (Outcome, error) {
	r := Outcome{Entries: m.given.entries, Bytes: m.given.bytes}
	made, err := m.remake()
	if err != nil {
		return r, err
	}
	r.Segments = len(made)
	if m.live != nil {
		return r, m.live.Exchange(m.made)
	}
	d := m.dir
	before, err := d.List()
	if err != nil {
		return r, err
	}
	for _, name := range made {
		if err := d.FS.Rename(name+vfs.TemporarySuffix, name); err != nil {
			return r, err
		}
	}
	found, err := d.List()
	if err != nil {
		return r, err
	}
	if len(made) > 0 {
		if err := found.SwapRepairs(); err != nil {
			return r, err
		}
	}
	for _, index := range m.log.spoiled {
		if err := d.SetAside(d.SnapshotPath(index)); err != nil {
			return r, err
		}
	}
	if err := d.SetForeignAside(m.log.foreign); err != nil {
		return r, err
	}
	if m.skips != nil {
		if err := d.Begin.Move(m.log.parts[0].ordinal, m.log.inventory.first); err != nil {
			return r, err
		}
	}
	if err := d.SyncDir(); err != nil {
		return r, err
	}
	if m.end != nil {
		mark := m.log.watermark
		if err := errors.Join(mark.Write(*m.end), mark.Close()); err != nil {
			return r, err
		}
	}
	after, err := d.List()
	if err != nil {
		return r, err
	}
	r.Aside = after.Aside[len(before.Aside):]
	return r, nil
}

// remake writes the new segments and returns what their names are to be.
func (m *Repairer) remake() (made []string, err error) {
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
// there had truncated some of a part before, and they are hidden so again.
func (m *Repairer) remakeGroup(a, b int) (names []string, err error) {
	begins := m.beginsOf(a, b)
	w := &remaker{repairer: m}
	for k := a; k <= b; k++ {
		h, err := m.headerFor(k, begins[k-a], w.last)
		if err != nil {
			return nil, err
		}
		name := filepath.Join(m.dir.Path, store.SegmentName(h.Ordinal, h.First)+store.RepairSuffix)
		// Several that were lost in one piece share it.
		split := k < b && begins[k-a+1] == begins[k-a+2]
		m.temporary = append(m.temporary, name+vfs.TemporarySuffix)
		end, err := w.write(name+vfs.TemporarySuffix, h, begins[k-a+1], split)
		if err != nil {
			return nil, err
		}
		begins[k-a+1] = end
		names = append(names, name)
		m.made = append(m.made, store.Rebuilt{Name: name, Header: h, Index: w.last})
		if k == len(m.log.parts)-1 {
			m.end = &format.Watermark{
				Ordinal: h.Ordinal, Salt: h.Salt, Position: w.position,
				Term: h.Hard.Term, Vote: h.Hard.Vote, Last: end - 1,
			}
		}
	}
	return names, nil
}

// beginsOf returns where each of the parts [a, b] begins, and where they end.
func (m *Repairer) beginsOf(a, b int) []uint64 {
	p, parts := &m.log.inventory, m.log.parts
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
func (m *Repairer) headerFor(k int, first uint64, before *format.Index) (*format.Header, error) {
	p := &m.log.parts[k]
	h := &format.Header{Ordinal: p.ordinal, First: first, Hard: m.log.hard, Owner: m.dir.Options.Owner}
	var salt [8]byte
	if _, err := io.ReadFull(m.dir.Options.Rand, salt[:]); err != nil {
		return nil, fmt.Errorf("draw a salt: %w", err)
	}
	h.Salt = binary.LittleEndian.Uint64(salt[:])
	for _, q := range m.log.parts[k:] {
		if q.header != nil {
			h.Conf = q.header.Conf
			break
		}
	}
	if p.header != nil {
		h.EndBefore, h.FooterBefore, h.SaltBefore = p.header.EndBefore, p.header.FooterBefore, p.header.SaltBefore
	} else if k > 0 {
		h.EndBefore, h.FooterBefore = max(m.log.parts[k-1].end, format.HeaderSize), m.log.parts[k-1].footer
		if before := m.log.parts[k-1].header; before != nil {
			h.SaltBefore = before.Salt
		}
	}
	if p.header != nil && p.header.First == first && before == nil && m.skips == nil {
		h.TermBefore, h.Start, h.Time, h.BytesBefore = p.header.TermBefore, p.header.Start, p.header.Time, p.header.BytesBefore
		return h, nil
	}
	return h, m.place(h, k, before)
}

// place fills in what a header says of the entries before its first.
func (m *Repairer) place(h *format.Header, k int, before *format.Index) (err error) {
	if h.TermBefore, err = m.termBefore(h.First); err != nil {
		return err
	}
	h.Start = m.log.inventory.nextOffset
	if s := m.certain(h.First); s != nil {
		if h.Start, err = m.startOf(s, h.First); err != nil {
			return err
		}
	}
	if before != nil {
		h.Start, h.Time, h.BytesBefore = before.NextOffset, before.Time, before.Bytes
		return nil
	}
	if s := m.certain(h.First - 1); s != nil {
		f, err := m.reader.header(s, h.First-1)
		if err != nil {
			return err
		}
		h.Time = f.Time
	}
	for _, q := range m.log.parts[k:] {
		if q.header != nil && q.header.First >= h.First {
			bytes, err := m.weigh(h.First, q.header.First)
			h.BytesBefore = q.header.BytesBefore - min(bytes, q.header.BytesBefore)
			return err
		}
	}
	return nil
}

// termBefore returns the term of the entry before i.
func (m *Repairer) termBefore(i uint64) (uint64, error) {
	if s := m.certain(i - 1); s != nil {
		return s.term, nil
	}
	if m.skips != nil {
		return m.skips.term, nil
	}
	if h := m.log.parts[m.log.from].header; h != nil {
		return h.TermBefore, nil
	}
	term, _, err := m.dir.ReadSnapshot(i - 1) // it is there, or the log could not be repaired
	return term, err
}

// weigh adds up the payload of the entries [from, to).
func (m *Repairer) weigh(from, to uint64) (bytes uint64, err error) {
	for from < to {
		s := m.certain(from)
		if s == nil {
			return bytes, nil // the log ends
		}
		err := m.reader.frames(s, from, min(to-1, s.last), func(h *format.FrameHeader, _ int64) (bool, error) {
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

// remaker writes segments one after the other.
type remaker struct {
	repairer *Repairer
	last     *format.Index // of the segment written last

	file     vfs.File
	header   *format.Header
	position int64
	buffer   []byte
	before   uint32
}

// write makes the segment h of the entries up to end, exclusive, durable but for
// its name. If split, it ends early when it is full. Its first block comes
// last: it tells where the footer is.
func (w *remaker) write(path string, h *format.Header, end uint64, split bool) (uint64, error) {
	m := w.repairer
	if err := m.dir.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	file, err := m.dir.FS.Create(path)
	if err != nil {
		return 0, fmt.Errorf("make a segment anew: %w", err)
	}
	w.file, w.header, w.position, w.buffer = file, h, format.HeaderSize, w.buffer[:0]
	w.before = uint32(h.Salt) // see link
	end, err = w.fill(end, split)
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, fmt.Errorf("make segment %s anew: %w", path, err)
	}
	return end, nil
}

func (w *remaker) fill(end uint64, split bool) (uint64, error) {
	m, x := w.repairer, format.NewIndex(w.header)
	full := func() bool { return split && w.position > m.dir.Options.SegmentBytes }
	for x.Next < end && !full() {
		s := m.certain(x.Next)
		if s == nil {
			return 0, fmt.Errorf("entry %d is not whole", x.Next)
		}
		var failed error
		err := m.reader.entries(s, x.Next, min(s.last, end-1), func(f segment.Frame) bool {
			h := format.EntryHeader(&f)
			at := w.position
			failed = w.add(&h, f.Payload)
			x.Add(&h, at)
			return failed == nil && !full()
		})
		if err = errors.Join(err, failed); err != nil {
			return 0, err
		}
	}
	payload := x.Encode(nil)
	if len(payload) > format.MaxPayload {
		return 0, fmt.Errorf("its footer would have %d bytes: %w", len(payload), format.ErrFooter)
	}
	w.header.Footer = w.position
	footer := format.FrameHeader{Length: uint32(len(payload)), Kind: format.FooterFrame, Index: x.Next - 1, PayloadCRC: format.Checksum(payload)}
	if err := w.add(&footer, payload); err != nil {
		return 0, err
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	if _, err := w.file.WriteAt(w.header.Encode(), 0); err != nil {
		return 0, err
	}
	w.last = x
	return x.Next, w.file.Datasync()
}

// add writes a frame. It vouches for all in front of it, since the file gets its
// name when it is durable.
func (w *remaker) add(h *format.FrameHeader, payload []byte) error {
	h.Salt, h.Synced, h.Before = w.header.Salt, w.position, w.before
	at := len(w.buffer)
	w.buffer = append(w.buffer, make([]byte, h.Size())...)
	h.Encode(w.buffer[at:], w.position)
	copy(w.buffer[at+format.FrameHeaderSize:], payload)
	w.position += h.Size()
	w.before = h.HeaderCRC
	if len(w.buffer) < store.PieceBytes {
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
