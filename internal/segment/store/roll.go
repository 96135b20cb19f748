package store

import (
	"fmt"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// mustRoll reports whether a frame of size bytes has to go to a new segment:
// this one is full, ends in a torn tail or is damaged, or it would have to grow on a disk
// that has no room, while the spare has its blocks already.
func (s *Store) mustRoll(size int64) bool {
	if s.torn {
		return true
	}
	begin := s.position + s.gather.size
	if begin == format.HeaderSize {
		return false
	}
	if s.sealNext.Load() == s.active.Ordinal {
		return true
	}
	return begin+size > s.Options.SegmentBytes || !s.mayGrow(begin+size)
}

// mayGrow reports whether the active segment can be written up to end: the
// blocks are there, or the disk has room for them, or no spare has.
func (s *Store) mayGrow(end int64) bool {
	filled := s.active.filled.Load()
	if end <= filled || !s.haveSpare() {
		return true
	}
	free, _, err := s.FS.Free(s.Path)
	return err != nil || free > end-filled+growReserve
}

// growReserve is what must stay free for the active segment to grow. Below
// it, blocks may be gone by the time they are asked for.
const growReserve = 1 << 20

// roll closes the active segment with a footer and begins the next one.
//
//  1. The footer is written, and the old segment synced: from here on a bad
//     frame in it is corrupt, since the next segment tells where it ends.
//  2. The header of the next segment is synced, in a file that is still a
//     spare. A crash before leaves the old segment as the active one.
//  3. The spare is renamed to a segment. The filler syncs the directory; if the
//     power goes before, recovery knows the segment by its header, see names.
//  4. the durable watermark is written.
//
// Only then a frame goes to the new segment.
func (s *Store) roll(result *segment.Result) error {
	if err := s.flush(); err != nil {
		return err
	}
	x := s.active.index
	return s.rollTo(format.Point{Index: x.Next, Offset: x.NextOffset, Time: x.Time, Bytes: x.Bytes}, result)
}

// rollTo begins a segment whose first entry is the one at place.
func (s *Store) rollTo(place format.Point, result *segment.Result) error {
	old := s.active
	termBefore, err := s.Term(place.Index - 1)
	if err != nil {
		return fmt.Errorf("roll to entry %d: %w", place.Index, err)
	}
	if _, err := s.syncNames(); err != nil {
		return err // recovery looks for one segment, not for two
	}
	footer, err := s.writeFooter()
	if err != nil {
		return err
	}
	if err := s.sync(); err != nil {
		return err
	}
	h := &format.Header{
		Ordinal: old.Ordinal + 1, First: place.Index, TermBefore: termBefore,
		Start: place.Offset, Time: place.Time, BytesBefore: place.Bytes,
		EndBefore: s.position, FooterBefore: footer, SaltBefore: old.header.Salt,
	}
	begun, err := s.begin(h, ".seg")
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.activate(begun)
	old.footer = footer != 0
	old.terms = old.index.Terms
	s.mu.Unlock()
	s.filler.kick() // the spare is gone
	result.Rolled = append(result.Rolled, place.Index)
	if err := s.release(old); err != nil {
		return err
	}
	return s.watermark.Write(s.durable)
}

// writeFooter writes the footer of the active segment and returns where it
// is; 0 if there is none. Without one the segment is scanned when it is first
// read, so a torn tail or a full disk is no reason to fail.
func (s *Store) writeFooter() (int64, error) {
	payload := s.active.index.Encode(nil)
	if s.torn || len(payload) > format.MaxPayload || !s.mayGrow(s.position+format.FrameSize(len(payload))) {
		return 0, nil
	}
	position := s.position
	s.stage(format.FrameHeader{
		Length: uint32(len(payload)), Kind: format.FooterFrame, Index: s.stagedNext - 1,
		PayloadCRC: format.Checksum(payload),
	}, payload)
	return position, s.flush()
}

// truncate prepares for an entry whose index is not the next. Entries from
// it on no longer count once its frame is written; nothing of them is touched.
//
// If it lies in an earlier segment, it gets a segment of its own. So no frame
// has an index below the first of its segment, and the names of the files
// alone tell which entries of which segment count.
func (s *Store) truncateSuffix(i uint64, result *segment.Result) error {
	if err := s.flush(); err != nil {
		return err
	}
	place, err := s.find(func(p *format.Point) bool { return p.Index < i })
	if err != nil {
		return fmt.Errorf("find entry %d, which is truncated: %w", i, err)
	}
	s.stagedNext = i
	active := s.active
	if i < active.First {
		return s.rollTo(place, result)
	}
	s.mu.Lock()
	active.index.Cut(place)
	active.end = i
	s.mu.Unlock()
	return nil
}
