package store

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/vfs"
)

// Recover opens the log in dir. It reads the last segment and the newest snapshot, so its cost
// does not grow with the log. It needs no room on disk: the first write begins the segment that
// follows a torn tail.
//
// The error is ErrNoLog if there is no log, and a *CorruptError or *SuspectError if durable bytes
// are damaged. No file has changed in these cases.
func Recover(disk vfs.FS, dir string, o Options) (*Store, error) {
	s := newStore(disk, dir, o)
	if err := (&recovery{Store: s}).run(); err != nil {
		return nil, s.notOpened(err)
	}
	s.filler.start()
	return s, nil
}

// OpenReadOnly opens the log in dir for reading, in the state that Recover would find, while no
// process writes to it. Neither OpenReadOnly nor Close changes anything on disk. Its cost and
// errors are those of Recover.
func OpenReadOnly(disk vfs.FS, dir string, o Options) (*Store, error) {
	s := newStore(disk, dir, o)
	s.readOnly = true
	if _, err := (&recovery{Store: s}).look((*Files).foreseen); err != nil {
		return nil, s.notOpened(err)
	}
	return s, nil
}

// notOpened closes the open files and adds the path to the error.
func (s *Store) notOpened(err error) error {
	err = errors.Join(err, s.closeHandles())
	for _, seg := range s.segments {
		if seg.file != nil {
			err = errors.Join(err, seg.file.Close())
		}
	}
	return fmt.Errorf("open log in %s: %w", s.Path, err)
}

// recovery opens a log.
type recovery struct {
	*Store
	found    *Files
	leftover []*Segment // segments before the beginning of the log
	scan     *scan      // of the newest segment
}

// run opens the log. It changes nothing before it has checked everything that can be damaged.
func (r *recovery) run() error {
	lacks, err := r.look((*Files).FinishSwaps)
	if err != nil {
		return err
	}
	found := r.found
	if lacks != nil {
		r.Options.Logger.Warn("the log has no durable watermark; a new one is written", "dir", r.Path, "reason", lacks)
	}
	if err := r.makeDurable(); err != nil {
		return err
	}
	if err := r.SetForeignAside(found.Foreign); err != nil {
		return err
	}
	if err := r.removeLeftover(r.leftover, found.Temporary); err != nil {
		return err
	}
	if err := r.snapshots.drop(); err != nil {
		return err
	}
	if err := r.spares.adopt(found.spares); err != nil {
		return err
	}
	if err := errors.Join(r.hold(), r.watermark.hold()); err != nil {
		return err
	}
	// A term or vote that was written before the process ended, and is durable only now, binds the
	// replica: it may grant that vote again without writing it. Also, the watermark that was read
	// may be in the page cache only.
	if err := r.makeWatermarkDurable(); err != nil {
		return err
	}
	return bug(r.CheckInvariants())
}

// look determines what the log consists of. It changes nothing itself; settle may, which returns
// the files as they are once interrupted swaps are completed. lacks is the reason if there is no
// durable watermark, and nil if there is one.
func (r *recovery) look(settle func(*Files) (*Files, error)) (lacks, err error) {
	found, err := r.List()
	if err != nil {
		return nil, err
	}
	r.Begin.Adopt(found)
	if found, err = settle(found); err != nil {
		return nil, err
	}
	r.found = found
	if len(found.Segments) == 0 && found.Begin == nil {
		return nil, segment.ErrNoLog
	}
	if lacks, err = r.watermark.Read(); err != nil {
		return nil, err
	}
	if err := r.adopt(); err != nil {
		return nil, err
	}
	if err := r.recoverActive(); err != nil {
		return nil, err
	}
	if _, err := r.headerOf(r.live[0]); err != nil {
		return nil, err
	}
	if err := r.recoverSnapshots(); err != nil {
		return nil, err
	}
	r.hard.Commit = min(max(r.hard.Commit, r.FirstIndex()-1), r.LastIndex())
	return lacks, nil
}

// SuspectError reports that segments [From, To] contain damaged durable bytes or are missing. A
// survey determines what is lost with them.
type SuspectError struct {
	From, To  uint64 // ordinals
	Found     *Files
	Watermark *WatermarkFile
}

func (e *SuspectError) Error() string {
	return fmt.Sprintf("damage in segments %d to %d", e.From, e.To)
}

func (r *recovery) suspect(from, to uint64) error {
	return &SuspectError{from, to, r.found, r.watermark}
}

// adopt takes the segments from the one on that the log begins with. Earlier ones are left over:
// a crash restores some of the names that Trim had removed. It returns an error if a segment is
// missing.
func (r *recovery) adopt() error {
	found := r.found
	kept := found.Segments
	if b := found.Begin; b != nil {
		from := sort.Search(len(kept), func(k int) bool { return kept[k].Ordinal >= b.Ordinal })
		r.leftover, kept = kept[:from], kept[from:]
	}
	for k, seg := range kept {
		switch {
		case k > 0 && kept[k-1].Ordinal+1 != seg.Ordinal:
			return r.suspect(kept[k-1].Ordinal, seg.Ordinal)
		case k == 0 && found.Begin != nil && seg.Ordinal != found.Begin.Ordinal:
			return r.suspect(found.Begin.Ordinal, seg.Ordinal)
		}
	}
	if len(kept) == 0 {
		return r.suspect(found.Begin.Ordinal, found.Begin.Ordinal)
	}
	r.segments = kept
	for _, seg := range r.segments {
		r.push(seg)
	}
	r.active = r.segments[len(r.segments)-1]
	return nil
}

// recoverActive scans the last segment. All earlier segments were synced before it was begun, so
// only the last one can have a torn tail.
func (r *recovery) recoverActive() error {
	active := r.active
	active.users = 1
	var err error
	if active.file, err = r.FS.Open(active.Path); err != nil {
		return err
	}
	h, err := r.ReadHeader(active, active.file)
	if errors.As(err, new(*segment.CorruptError)) {
		return r.suspect(active.Ordinal, active.Ordinal)
	}
	if err != nil {
		return err
	}
	sc, err := scanFile(active.file, active.Path, h, active.Size, false)
	if err != nil {
		if vfs.Unreadable(err) {
			return r.suspect(active.Ordinal, active.Ordinal)
		}
		return err
	}
	active.header, active.index, active.end = h, sc.index, sc.index.Next
	r.hard, r.conf = sc.hard, h.Conf
	r.writer.position, r.before, r.stagedNext = sc.Position, sc.before, sc.index.Next
	r.marked = sc.marked
	r.filler.activity.position.Store(r.writer.position)
	r.torn = h.Rebuilt()
	torn, corrupt := false, false
	if sc.Bad != nil {
		if torn, corrupt, err = sc.LookBehind(); vfs.Unreadable(err) {
			return r.suspect(active.Ordinal, active.Ordinal)
		} else if err != nil {
			return err
		}
	}
	behind := r.watermark.Missing(LogEnd{h, r.writer.position, r.hard, r.stagedNext - 1}) != ""
	if corrupt || behind {
		return r.suspect(active.Ordinal, active.Ordinal)
	}
	if torn {
		r.Options.Logger.Info("cut a torn tail, which was never synced",
			"file", active.Path, "position", r.writer.position, "last_index", r.stagedNext-1, "found", sc.Bad)
	}
	r.torn = r.torn || torn
	r.scan = sc
	return nil
}

// makeDurable makes everything that was found durable: names and bytes may be in the page cache
// only, and from here on they are relied on. After a failed fsync the cache can hold pages that
// are not on the disk and will never be written, because the kernel considers them clean. So all
// bytes that no later frame declares durable are written again, unchanged, and synced. A socket
// that still refers to these pages sends the same bytes.
func (r *recovery) makeDurable() error {
	active := r.active
	for at := r.scan.vouched; at < r.writer.position; {
		b := make([]byte, min(PieceBytes, r.writer.position-at))
		if _, err := active.file.ReadAt(b, at); err != nil {
			return fmt.Errorf("make %s durable: %w", active.Path, err)
		}
		if _, err := active.file.WriteAt(b, at); err != nil {
			return fmt.Errorf("make %s durable: %w", active.Path, err)
		}
		at += int64(len(b))
	}
	if err := active.file.Datasync(); err != nil {
		return fmt.Errorf("make %s durable: %w", active.Path, err)
	}
	if err := r.SyncDir(); err != nil {
		return fmt.Errorf("make %s durable: %w", r.Path, err)
	}
	r.noteDurable()
	return nil
}

func (r *recovery) makeWatermarkDurable() error {
	w := r.watermark
	if !w.known || w.due(&r.durable) {
		return r.writeWatermarkIfDue()
	}
	if err := w.writeSlot(&w.Written); err != nil {
		return fmt.Errorf("make %s durable: %w", w.Path(), err)
	}
	return nil
}

// recoverSnapshots finds the newest valid snapshot. It returns an error if the log has nothing to
// begin from: there is no valid snapshot and the first entries are missing, or a snapshot covers
// entries that the log does not have.
func (r *recovery) recoverSnapshots() error {
	snapshots := r.found.Snapshots
	if n, last := len(snapshots), r.LastIndex(); n > 0 && snapshots[n-1] > last {
		return &segment.CorruptError{
			File: r.SnapshotPath(snapshots[n-1]), FirstIndex: last + 1, LastIndex: snapshots[n-1], Renew: true,
			Detail: fmt.Sprintf("the log ends at entry %d, but had this entry when the snapshot was taken", last),
		}
	}
	index, _, _, err := r.newestSnapshot(snapshots)
	first := r.live[0].First
	switch {
	case errors.Is(err, segment.ErrNoSnapshot) && r.found.AsCreated():
		r.Options.Logger.Error("no snapshot is valid; the log is read from its first entry on", "dir", r.Path)
		r.rotten = snapshots
		return nil
	case errors.Is(err, segment.ErrNoSnapshot) && len(snapshots) > 0:
		newest := snapshots[len(snapshots)-1]
		return &segment.CorruptError{
			File: r.SnapshotPath(newest), FirstIndex: 1, LastIndex: newest, Renew: true, Detail: "no snapshot is valid",
		}
	case errors.Is(err, segment.ErrNoSnapshot) || err == nil && index+1 < first:
		return &segment.CorruptError{
			File: r.live[0].Path, FirstIndex: index + 1, LastIndex: first - 1, Renew: true,
			Detail: "no snapshot covers the missing entries before it",
		}
	case err != nil:
		return err
	}
	newest, _ := slices.BinarySearch(snapshots, index)
	r.kept, r.rotten = slices.Clone(snapshots[:newest+1]), snapshots[newest+1:]
	return nil
}
