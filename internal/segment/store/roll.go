package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// roll ends the active segment with a footer and begins the next one.
//
//  1. The footer is written, and the old segment is synced: from here on a bad
//     frame in it is corrupt, since the next header says where it ends.
//  2. The header of the next segment is synced, in a file that is still a
//     spare. A crash before this leaves the old segment active.
//  3. The spare is renamed to a segment. The filler syncs the directory; if the
//     power fails before, recovery recognizes the segment by its header, see names.
//  4. The durable watermark is written.
//
// Only then are frames written to the new segment.
func (w *writer) roll(result *segment.Result) error {
	if err := w.flush(); err != nil {
		return err
	}
	x := w.active.index
	return w.rollTo(format.Point{Index: x.Next, Offset: x.NextOffset, Time: x.Time, Bytes: x.Bytes}, result)
}

// rollTo begins a segment whose first entry is the one at place.
func (w *writer) rollTo(place format.Point, result *segment.Result) error {
	old := w.active
	termBefore, err := w.reader.Term(place.Index - 1)
	if err != nil {
		return fmt.Errorf("roll to entry %d: %w", place.Index, err)
	}
	if _, err := w.names.sync(); err != nil {
		return err // recovery expects at most one such segment
	}
	footer, err := w.writeFooter()
	if err != nil {
		return err
	}
	if err := w.sync(); err != nil {
		return err
	}
	h := &format.Header{
		Ordinal: old.Ordinal + 1, First: place.Index, TermBefore: termBefore,
		Start: place.Offset, Time: place.Time, BytesBefore: place.Bytes,
		EndBefore: w.position, FooterBefore: footer, SaltBefore: old.header.Salt,
	}
	begun, err := w.begin(h, ".seg")
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.activate(begun)
	old.footer = footer != 0
	old.terms = old.index.Terms
	w.mu.Unlock()
	w.busy.kick() // the spare has been taken
	result.Rolled = append(result.Rolled, place.Index)
	if err := w.reader.release(old); err != nil {
		return err
	}
	return w.watermark.Write(w.durable)
}

// truncateSuffix prepares for an entry whose index is not the next. Entries from i on are no
// longer valid once its frame is written; their frames stay unchanged.
//
// If the entry i is in an earlier segment, the new entry begins a new segment. So no frame has an
// index below the first of its segment, and the file names alone show which entries of which
// segment are valid.
func (w *writer) truncateSuffix(i uint64, result *segment.Result) error {
	if err := w.flush(); err != nil {
		return err
	}
	place, err := w.reader.find(func(p *format.Point) bool { return p.Index < i })
	if err != nil {
		return fmt.Errorf("find entry %d to truncate: %w", i, err)
	}
	w.stagedNext = i
	active := w.active
	if i < active.First {
		return w.rollTo(place, result)
	}
	w.mu.Lock()
	active.index.Cut(place)
	active.end = i
	w.mu.Unlock()
	return nil
}

// begin creates the file of a segment with header h, and fills in salt, hard state and
// configuration. A crash leaves either no such segment or one that is complete and empty. If the
// segment follows another one, only its content is durable on return: the filler makes its name
// durable.
func (w *writer) begin(h *format.Header, suffix string) (*Segment, error) {
	var salt [8]byte
	if _, err := io.ReadFull(w.Options.Rand, salt[:]); err != nil {
		return nil, fmt.Errorf("draw a salt: %w", err)
	}
	h.Salt, h.Owner = binary.LittleEndian.Uint64(salt[:]), w.Options.Owner
	h.Hard, h.Conf = w.HardState(), w.conf
	spare, err := w.spares.take()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(w.Path, SegmentName(h.Ordinal, h.First)+suffix)
	err = func() error {
		if _, err := spare.file.WriteAt(h.Encode(), 0); err != nil {
			return err
		}
		if err := spare.file.Datasync(); err != nil {
			return err
		}
		if err := w.FS.Rename(spare.path, path); err != nil {
			return err
		}
		if h.Follows() && spare.named {
			w.names.owe() // recovery recognizes the segment by its header, see adoptBegun
			return nil
		}
		return w.SyncDir()
	}()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin segment %s: %w", path, err), spare.file.Close())
	}
	seg := &Segment{
		Ordinal: h.Ordinal, First: h.First, Path: path, header: h, index: format.NewIndex(h),
		file: spare.file, users: 1, end: h.First, Size: max(spare.filled, format.HeaderSize), begun: true,
	}
	seg.filled.Store(seg.Size)
	return seg, nil
}
