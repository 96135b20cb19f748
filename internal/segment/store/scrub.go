package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// Check looks at the header and the footer of every segment: whether it is the one
// that this log wrote there, up to where the next one says. It reads little of
// each, and is for the time after Open, which reads the newest segment only.
//
// Check and Scrub may run beside everything else, one at a time. They call damaged
// for each segment of which what is stored is not what was written, with a
// *CorruptError, or whose file is gone, with fs.ErrNotExist; for some of them twice.
// Then they go on behind it. A segment whose end is not known, since the next one's
// header is lost, is not looked at: a repair lays out both anew. Their error is why they could not go on.
func (s *Store) Check(damaged func(error)) error {
	return s.eachSegment(func(*Segment) error { return nil }, damaged)
}

// Scrub reads everything that is stored of the log, and compares it with its
// checksums: headers, frames and footers of all segments, the newest up to where
// it is durable, with its hard states; snapshots; the watermark; the begin mark.
// It reads what the disk has, not what the page cache remembers, see FS.OpenStored.
//
// Damage of segments is left to the caller. A damaged snapshot is set aside, a damaged
// watermark or begin mark is written anew: the log goes on without. Where no snapshot
// is valid any more, damaged gets ErrNoSnapshot: the next SaveSnapshot sets those
// aside that are damaged.
//
// pace is called before each read with the number of bytes. Its error ends the
// scrub.
func (s *Store) Scrub(pace func(bytes int) error, damaged func(error)) error {
	err := s.eachSegment(func(seg *Segment) error { return s.scrubSegment(seg, pace) }, damaged)
	if err == nil {
		err = s.scrubSnapshots(pace, damaged)
	}
	if err == nil {
		err = s.scrubWatermark()
	}
	if err == nil {
		err = s.scrubBegin()
	}
	return err
}

// eachSegment calls visit with each segment, loaded and in use. Those that leave
// the log meanwhile are left out.
func (s *Store) eachSegment(visit func(*Segment) error, damaged func(error)) error {
	s.mu.RLock()
	segments := slices.Clone(s.segments)
	s.mu.RUnlock()
	for _, seg := range segments {
		if seg.unnamed.Load() {
			continue // it has just been written
		}
		err := s.useSegment(seg)
		if err == nil {
			err = errors.Join(visit(seg), s.release(seg))
		}
		switch {
		case err == nil || s.hasLeft(seg):
		case damagedFile(err):
			damaged(err)
		default:
			return err
		}
	}
	return nil
}

func (s *Store) hasLeft(seg *Segment) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return seg.gone
}

func (s *Store) scrubSegment(seg *Segment, pace func(int) error) (err error) {
	end := seg.durable.Load() // before it is asked whether it is the newest: it only grows
	stored, err := s.FS.OpenStored(seg.Path)
	if err != nil {
		return fmt.Errorf("scrub: %w", err)
	}
	file := pacedFile{stored, pace}
	defer func() { err = errors.Join(err, file.Close()) }()
	h, err := s.ReadHeader(seg, file)
	if err != nil {
		return err
	}
	sealed := !s.isActive(seg)
	size := end
	switch {
	case !sealed:
	case h.Rebuilt():
		end = h.Footer + format.FrameHeaderSize
		if size, err = file.Size(); err != nil {
			return fmt.Errorf("scrub %s: %w", seg.Path, err)
		}
	default:
		next, err := s.successorHeader(seg)
		if err != nil {
			return err
		}
		end, size = next.EndBefore, next.EndBefore
	}
	sc, err := scanFile(file, seg.Path, h, size, false)
	s.mu.RLock()
	reach := seg.end
	s.mu.RUnlock()
	switch {
	case sealed && vfs.Unreadable(err):
		return &segment.CorruptError{
			File: seg.Path, Position: sc.Position, FirstIndex: sc.index.Next, LastIndex: max(reach, sc.index.Next+1) - 1, Detail: err.Error(),
		}
	case err != nil:
		return err
	case sc.Bad != nil && sc.Position < end:
		return corruptFrame(file, seg.Path, h.Salt, sc.Position, end, sc.index.Next, reach, sc.Bad)
	}
	return nil
}

// scrubSnapshots sets damaged snapshots aside, unless no other is valid.
func (s *Store) scrubSnapshots(pace func(int) error, damaged func(error)) error {
	s.mu.RLock()
	snapshots, first := slices.Clone(s.snapshots), s.live[0].First
	s.mu.RUnlock()
	var rotten []uint64
	valid := false
	for _, index := range snapshots {
		path := s.SnapshotPath(index)
		b, err := s.readStored(path, pace)
		if err == nil {
			_, _, err = format.ParseSnapshot(b, s.Options.Owner, index)
		} else if !vfs.Unreadable(err) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.mu.RLock()
		kept := s.hasSnapshot(index)
		s.mu.RUnlock()
		switch {
		case !kept:
		case err == nil:
			valid = valid || index+1 >= first
		default:
			s.Options.Logger.Error("a snapshot is damaged; it is set aside once there is another", "file", path, "error", err)
			rotten = append(rotten, index)
		}
	}
	if len(rotten) == 0 || valid {
		return s.setSnapshotsAside(rotten)
	}
	s.mu.Lock()
	s.rotten = rotten
	s.mu.Unlock()
	damaged(fmt.Errorf("%s is damaged: %w", s.SnapshotPath(rotten[len(rotten)-1]), segment.ErrNoSnapshot))
	return nil
}

// scrubWatermark lets the writer make the watermark anew if it is damaged.
func (s *Store) scrubWatermark() error {
	b, err := s.readStored(s.watermark.Path(), nil)
	if err == nil {
		_, err = s.watermark.parse(b)
	} else if !vfs.Unreadable(err) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil && !s.watermark.damaged.Swap(true) {
		s.Options.Logger.Error("the durable watermark is damaged; the next sync makes it anew", "file", s.watermark.Path(), "error", err)
	}
	return nil
}

// scrubBegin writes the begin mark anew if it is damaged.
func (s *Store) scrubBegin() error {
	mark := &s.begun
	mark.mu.Lock()
	defer mark.mu.Unlock()
	if mark.path == "" {
		return nil
	}
	b, err := s.readStored(mark.path, nil)
	if err == nil {
		err = format.CheckBegin(b, s.Options.Owner)
	} else if !vfs.Unreadable(err) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		return nil
	}
	s.Options.Logger.Error("the mark of the log's begin is damaged; it is written anew", "file", mark.path, "error", err)
	if err := vfs.WriteFileDurably(s.FS, mark.path, format.EncodeBegin(s.Options.Owner)); err != nil {
		return fmt.Errorf("mark the begin of the log: %w", err)
	}
	return nil
}

// readStored reads a small file as the disk has it.
func (s *Store) readStored(path string, pace func(int) error) ([]byte, error) {
	stored, err := s.FS.OpenStored(path)
	if err != nil {
		return nil, err
	}
	file := pacedFile{stored, pace}
	size, err := file.Size()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	b := make([]byte, size)
	n, err := file.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return b[:n], errors.Join(err, file.Close())
}

// pacedFile asks pace, if not nil, before each read.
type pacedFile struct {
	vfs.File
	pace func(bytes int) error
}

func (p pacedFile) ReadAt(b []byte, position int64) (int, error) {
	if p.pace != nil {
		if err := p.pace(len(b)); err != nil {
			return 0, err
		}
	}
	return p.File.ReadAt(b, position)
}
