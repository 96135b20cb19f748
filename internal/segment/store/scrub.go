package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// Check checks the header and the footer of every segment: whether it is the segment that this
// log wrote there, up to the end that the next header names. It reads little of each segment, and
// is meant to run after Recover, which reads the newest segment only. It reads snapshots whole,
// as Scrub does: Recover reads the newest valid one only, and a damaged one is needed when the
// log has to begin from it.
//
// Check and Scrub may run concurrently with everything else, but only one of them at a time. For
// each damaged segment they call damaged with a *CorruptError, or with fs.ErrNotExist if the file
// is missing; for some segments twice. Then they continue behind it. They skip a segment whose
// end is not known because the next header is lost: a repair rewrites both. The error that they
// return says why they could not continue.
func (s *Store) Check(damaged func(error)) error {
	c := &scrubber{s, nil, damaged}
	return cmp.Or(c.eachSegment(func(*Segment) error { return nil }), c.scrubSnapshots())
}

// Scrub reads everything that is stored of the log and compares it with its checksums: headers,
// frames and footers of all segments, of the newest up to the durable position, with its hard
// states; snapshots; the watermark; the begin mark. It reads from the disk and not from the page
// cache, see vfs.FS.OpenStored.
//
// The caller repairs damaged segments. Scrub sets a damaged snapshot aside and rewrites a damaged
// watermark or begin mark: the log continues without them. If no snapshot is valid any more,
// damaged is called with ErrNoSnapshot, and the next SaveSnapshot sets the damaged ones aside.
//
// pace is called before each read with the number of bytes. Its error ends the scrub.
func (s *Store) Scrub(pace func(bytes int) error, damaged func(error)) error {
	c := &scrubber{s, pace, damaged}
	return cmp.Or(c.eachSegment(c.segment), c.scrubSnapshots(), c.scrubWatermark(), c.scrubBegin())
}

// Forged returns the error for an entry that is not what was appended although all checksums
// match.
func (s *Store) Forged(index uint64, reason error) error {
	e := &segment.CorruptError{FirstIndex: index, LastIndex: index, Detail: reason.Error(), Forged: true}
	for _, seg := range s.liveSegments() {
		if seg.First <= index {
			e.File = seg.Path
		}
	}
	return e
}

// scrubber compares the stored files of a log with their checksums.
type scrubber struct {
	*Store
	pace    func(bytes int) error
	damaged func(error)
}

// eachSegment calls visit with each segment, loaded and in use. It skips segments that leave the
// log meanwhile.
func (c *scrubber) eachSegment(visit func(*Segment) error) error {
	for _, seg := range c.all() {
		if seg.unnamed.Load() {
			continue // it has just been written
		}
		err := c.useSegment(seg)
		if err == nil {
			err = errors.Join(visit(seg), c.release(seg))
		}
		switch {
		case err == nil || c.hasLeft(seg):
		case damagedFile(err):
			c.damaged(err)
		default:
			return err
		}
	}
	return nil
}

func (c *scrubber) segment(seg *Segment) (err error) {
	end := seg.durable.Load() // before isActive is called, since it only grows
	stored, err := c.FS.OpenStored(seg.Path)
	if err != nil {
		return fmt.Errorf("scrub: %w", err)
	}
	file := pacedFile{stored, c.pace}
	defer func() { err = errors.Join(err, file.Close()) }()
	h, err := c.ReadHeader(seg, file)
	if err != nil {
		return err
	}
	complete := !c.isActive(seg)
	size := end
	switch {
	case !complete:
	case h.Rebuilt():
		end = h.Footer + format.FrameHeaderSize
		if size, err = file.Size(); err != nil {
			return fmt.Errorf("scrub %s: %w", seg.Path, err)
		}
	default:
		next, err := c.successorHeader(seg)
		if err != nil {
			return err
		}
		end, size = next.EndBefore, next.EndBefore
	}
	sc := newScan(file, seg.Path, h, size, false)
	err = sc.run()
	c.list.mu.RLock()
	reach := seg.end
	c.list.mu.RUnlock()
	switch {
	case complete && vfs.Unreadable(err):
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

// scrubSnapshots sets damaged snapshots aside, including those that Recover found, unless no
// other one is valid.
func (c *scrubber) scrubSnapshots() error {
	c.list.mu.RLock()
	snapshots, first := slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.kept, c.rotten)))), c.live[0].First
	c.list.mu.RUnlock()
	var rotten []uint64
	valid := false
	for _, index := range snapshots {
		damage, err := c.snapshotDamage(index)
		if err != nil {
			return err
		}
		c.list.mu.RLock()
		kept := c.snapshots.has(index) || slices.Contains(c.rotten, index)
		c.list.mu.RUnlock()
		switch {
		case !kept:
		case damage == nil:
			valid = valid || index+1 >= first
		default:
			c.Options.Logger.Error("a snapshot is damaged; it is set aside when a newer one exists", "file", c.SnapshotPath(index), "error", damage)
			rotten = append(rotten, index)
		}
	}
	c.upkeep.Lock()
	defer c.upkeep.Unlock()
	rotten, err := c.stillDamaged(rotten)
	if err != nil || len(rotten) == 0 {
		return err
	}
	if valid {
		return c.snapshots.setAside(rotten)
	}
	c.list.mu.Lock()
	c.rotten = rotten
	c.list.mu.Unlock()
	c.damaged(fmt.Errorf("%s is damaged: %w", c.SnapshotPath(rotten[len(rotten)-1]), segment.ErrNoSnapshot))
	return nil
}

// snapshotDamage returns the damage of a snapshot, or nil. err is not nil if the snapshot could
// not be checked.
func (c *scrubber) snapshotDamage(index uint64) (damage, err error) {
	b, err := c.readStored(c.SnapshotPath(index))
	if err == nil {
		_, _, damage = format.ParseSnapshot(b, c.Options.Owner, index)
		return damage, nil
	}
	if vfs.Unreadable(err) || errors.Is(err, fs.ErrNotExist) {
		return err, nil
	}
	return nil, err
}

// stillDamaged returns those of snapshots that are still damaged: since they were read, another
// one of the same entry may have been saved to the same file. The caller holds upkeep, so no
// snapshot is saved meanwhile.
func (c *scrubber) stillDamaged(snapshots []uint64) (rotten []uint64, err error) {
	unpaced := &scrubber{c.Store, nil, nil}
	for _, index := range snapshots {
		damage, err := unpaced.snapshotDamage(index)
		if err != nil {
			return nil, err
		}
		if damage != nil {
			rotten = append(rotten, index)
		}
	}
	return rotten, nil
}

// scrubWatermark makes the writer rewrite the watermark if it is damaged.
func (c *scrubber) scrubWatermark() error {
	b, err := c.readStored(c.watermark.Path())
	if err == nil {
		_, err = c.watermark.parse(b)
	} else if !vfs.Unreadable(err) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil && !c.watermark.damaged.Swap(true) {
		c.Options.Logger.Error("the durable watermark is damaged; the next sync rewrites it", "file", c.watermark.Path(), "error", err)
	}
	return nil
}

// scrubBegin rewrites the begin mark if it is damaged.
func (c *scrubber) scrubBegin() error {
	mark := c.Begin
	mark.mu.Lock()
	defer mark.mu.Unlock()
	if mark.path == "" {
		return nil
	}
	b, err := c.readStored(mark.path)
	if err == nil {
		err = format.CheckBegin(b, c.Options.Owner)
	} else if !vfs.Unreadable(err) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		return nil
	}
	c.Options.Logger.Error("the begin mark is damaged; it is rewritten", "file", mark.path, "error", err)
	if err := vfs.WriteFileDurably(c.FS, mark.path, format.EncodeBegin(c.Options.Owner)); err != nil {
		return fmt.Errorf("mark the begin of the log: %w", err)
	}
	return nil
}

// readStored reads a small file from the disk.
func (c *scrubber) readStored(path string) ([]byte, error) {
	stored, err := c.FS.OpenStored(path)
	if err != nil {
		return nil, err
	}
	return vfs.ReadWhole(pacedFile{stored, c.pace})
}

// pacedFile calls pace, if not nil, before each read.
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
