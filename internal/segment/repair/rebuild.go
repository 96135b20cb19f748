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

// rebuild writes the new segments of a repair.
type rebuild struct {
	*Repairer
	made []store.Rebuilt
	end  *format.Watermark // of the newest segment, if it is rewritten
	// temporary are the paths of the segments until they are complete.
	temporary []string
}

// remake writes the new segments and returns their final names.
func (n *rebuild) remake() (made []string, err error) {
	parts := n.log.parts
	for a := 0; a < len(parts); a++ {
		if !parts[a].damaged {
			continue
		}
		b := a
		for b+1 < len(parts) && parts[b+1].damaged {
			b++
		}
		names, err := n.remakeGroup(a, b)
		if err != nil {
			return nil, err
		}
		made = append(made, names...)
		a = b
	}
	return made, nil
}

// remakeGroup rewrites the damaged parts [a, b]. Each begins at the first entry that is in it or
// was lost in it, and ends where the next one begins. All entries in between are written,
// whichever part they were in: entries lost there had truncated some of an earlier part, and hide
// them again.
func (n *rebuild) remakeGroup(a, b int) (names []string, err error) {
	begins := n.beginsOf(a, b)
	w := &remaker{repairer: n.Repairer}
	for k := a; k <= b; k++ {
		h, err := n.headerFor(k, begins[k-a], w.last)
		if err != nil {
			return nil, err
		}
		name := filepath.Join(n.dir.Path, store.SegmentName(h.Ordinal, h.First)+store.RepairSuffix)
		// Consecutive parts that were lost together share the entries.
		split := k < b && begins[k-a+1] == begins[k-a+2]
		n.temporary = append(n.temporary, name+vfs.TemporarySuffix)
		end, err := w.write(name+vfs.TemporarySuffix, h, begins[k-a+1], split)
		if err != nil {
			return nil, err
		}
		begins[k-a+1] = end
		names = append(names, name)
		n.made = append(n.made, store.Rebuilt{Name: name, Header: h, Index: w.last})
		if k == len(n.log.parts)-1 {
			n.end = &format.Watermark{
				Ordinal: h.Ordinal, Salt: h.Salt, Position: w.position,
				Term: h.Hard.Term, Vote: h.Hard.Vote, Last: end - 1,
			}
		}
	}
	return names, nil
}

// beginsOf returns the first index of each of the parts [a, b], followed by the index at which
// they end.
func (n *rebuild) beginsOf(a, b int) []uint64 {
	p, parts := &n.log.inventory, n.log.parts
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

// firstOr returns the index in the part's name, or otherwise if it is not known.
func (p *part) firstOr(otherwise uint64) uint64 {
	if p.first == 0 {
		return otherwise
	}
	return p.first
}

// headerFor returns the header of part k, which begins at the entry first. before is the index of
// the part written just before it, if any.
func (n *rebuild) headerFor(k int, first uint64, before *format.Index) (*format.Header, error) {
	p := &n.log.parts[k]
	h := &format.Header{Ordinal: p.ordinal, First: first, Hard: n.log.hard, Owner: n.dir.Options.Owner}
	var salt [8]byte
	if _, err := io.ReadFull(n.dir.Options.Rand, salt[:]); err != nil {
		return nil, fmt.Errorf("draw a salt: %w", err)
	}
	h.Salt = binary.LittleEndian.Uint64(salt[:])
	for _, q := range n.log.parts[k:] {
		if q.header != nil {
			h.Conf = q.header.Conf
			break
		}
	}
	if p.header != nil {
		h.EndBefore, h.FooterBefore, h.SaltBefore = p.header.EndBefore, p.header.FooterBefore, p.header.SaltBefore
	} else if k > 0 {
		h.EndBefore, h.FooterBefore = max(n.log.parts[k-1].end, format.HeaderSize), n.log.parts[k-1].footer
		if before := n.log.parts[k-1].header; before != nil {
			h.SaltBefore = before.Salt
		}
	}
	if p.header != nil && p.header.First == first && before == nil && n.skips == nil {
		h.TermBefore, h.Start, h.Time, h.BytesBefore = p.header.TermBefore, p.header.Start, p.header.Time, p.header.BytesBefore
		return h, nil
	}
	return h, n.place(h, k, before)
}

// place fills in the fields of a header that describe the entries before its first.
func (n *rebuild) place(h *format.Header, k int, before *format.Index) (err error) {
	if h.TermBefore, err = n.termBefore(h.First); err != nil {
		return err
	}
	h.Start = n.log.inventory.nextOffset
	if s := n.certain(h.First); s != nil {
		if h.Start, err = n.startOf(s, h.First); err != nil {
			return err
		}
	}
	if before != nil {
		h.Start, h.Time, h.BytesBefore = before.NextOffset, before.Time, before.Bytes
		return nil
	}
	if s := n.certain(h.First - 1); s != nil {
		f, err := n.reader.header(s, h.First-1)
		if err != nil {
			return err
		}
		h.Time = f.Time
	}
	for _, q := range n.log.parts[k:] {
		if q.header != nil && q.header.First >= h.First {
			bytes, err := n.weigh(h.First, q.header.First)
			h.BytesBefore = q.header.BytesBefore - min(bytes, q.header.BytesBefore)
			return err
		}
	}
	return nil
}

// termBefore returns the term of the entry before i.
func (n *rebuild) termBefore(i uint64) (uint64, error) {
	if s := n.certain(i - 1); s != nil {
		return s.term, nil
	}
	if n.skips != nil {
		return n.skips.term, nil
	}
	if h := n.log.parts[n.log.from].header; h != nil {
		return h.TermBefore, nil
	}
	term, _, err := n.dir.ReadSnapshot(i - 1) // the snapshot exists, or the log could not be repaired
	return term, err
}

// removeUnfinished removes the new segments that a failed repair has written. The next start
// would remove them, too.
func (n *rebuild) removeUnfinished(given string) (err error) {
	for _, path := range append(n.temporary, given) {
		if e := n.dir.FS.Remove(path); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// remaker writes segments, one after another.
type remaker struct {
	repairer *Repairer
	last     *format.Index // of the segment written last

	file     vfs.File
	header   *format.Header
	position int64
	buffer   []byte
	before   uint32
}

// write writes the segment h with the entries up to end, exclusive, and makes it durable under a
// temporary name. If split is set, it ends early when the segment is full. The first block is
// written last, since it holds the position of the footer.
func (w *remaker) write(path string, h *format.Header, end uint64, split bool) (uint64, error) {
	m := w.repairer
	if err := m.dir.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	file, err := m.dir.FS.Create(path)
	if err != nil {
		return 0, fmt.Errorf("create a repaired segment: %w", err)
	}
	w.file, w.header, w.position, w.buffer = file, h, format.HeaderSize, w.buffer[:0]
	w.before = uint32(h.Salt) // see Header.Link
	end, err = w.fill(end, split)
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, fmt.Errorf("write repaired segment %s: %w", path, err)
	}
	return end, nil
}

func (w *remaker) fill(end uint64, split bool) (uint64, error) {
	m, x := w.repairer, format.NewIndex(w.header)
	full := func() bool { return split && w.position > m.dir.Options.SegmentBytes }
	for x.Next < end && !full() {
		s := m.certain(x.Next)
		if s == nil {
			return 0, fmt.Errorf("entry %d is incomplete", x.Next)
		}
		var failed error
		err := m.reader.entries(s, x.Next, min(s.last, end-1), func(f segment.Entry) bool {
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
		return 0, fmt.Errorf("a footer of %d bytes: %w", len(payload), format.ErrFooter)
	}
	w.header.Footer = w.position
	footer := format.StateHeader(format.FooterFrame, x.Next-1, payload)
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

// add writes a frame. Its synced-through position is its own, since the file gets its name only
// when all of it is durable.
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
