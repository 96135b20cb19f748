package store

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/vfs"
)

// Recover opens the log in dir. It reads the last segment and the newest
// snapshot; what it costs does not grow with the log. It needs no room on
// disk: the segment that follows a torn tail is begun by the first write.
//
// ErrNoLog: there is none. *CorruptError, *SuspectError: bytes that were durable are
// damaged; no file was changed.
func Recover(disk vfs.FS, dir string, o Options) (*Store, error) {
	s := newStore(disk, dir, o)
	if err := s.recover(); err != nil {
		err = errors.Join(err, s.closeHandles())
		for _, seg := range s.segments {
			if seg.file != nil {
				err = errors.Join(err, seg.file.Close())
			}
		}
		return nil, fmt.Errorf("open log in %s: %w", dir, err)
	}
	s.startFiller()
	return s, nil
}

// recover walks these steps. Nothing is changed before all that can be found
// damaged has been looked at.
func (s *Store) recover() error {
	found, err := s.List()
	if err != nil {
		return err
	}
	s.AdoptBegin(found)
	if found, err = s.FinishSwaps(found); err != nil {
		return err
	}
	if len(found.Segments) == 0 && found.Begin == nil {
		return segment.ErrNoLog
	}
	lacks, err := s.watermark.Read()
	if err != nil {
		return err
	}
	leftover, err := s.adopt(found)
	if err != nil {
		return err
	}
	sc, err := s.recoverActive(found)
	if err != nil {
		return err
	}
	if _, err := s.headerOf(s.live[0]); err != nil {
		return err
	}
	if err := s.recoverSnapshots(found); err != nil {
		return err
	}
	if lacks != nil {
		s.Options.Logger.Warn("the log has no durable watermark; it gets another one", "dir", s.Path, "reason", lacks)
	}
	s.hard.Commit = min(max(s.hard.Commit, s.FirstIndex()-1), s.LastIndex())
	if err := s.settle(sc); err != nil {
		return err
	}
	if err := s.SetForeignAside(found.Foreign); err != nil {
		return err
	}
	if err := s.removeLeftover(leftover, found.Temporary); err != nil {
		return err
	}
	if err := s.dropSnapshots(); err != nil {
		return err
	}
	if err := s.adoptSpares(found.spares); err != nil {
		return err
	}
	if err := errors.Join(s.hold(), s.watermark.hold()); err != nil {
		return err
	}
	// A term or a vote that was written when the process ended, and is durable only
	// now, binds the replica: it may grant that vote again without writing it.
	return s.writeWatermarkIfDue()
}

// SuspectError names segments [From, To] in which durable bytes are damaged, or
// which are missing. What is lost with them is for a survey to find out.
type SuspectError struct {
	From, To  uint64 // ordinals
	Found     *Files
	Watermark *WatermarkFile
}

func (e *SuspectError) Error() string {
	return fmt.Sprintf("damage in segments %d to %d", e.From, e.To)
}

func (s *Store) suspect(found *Files, from, to uint64) error {
	return &SuspectError{from, to, found, s.watermark}
}

const GivenName = "given" + vfs.TemporarySuffix

// Files are the names in a log's directory.
type Files struct {
	all       []string
	Segments  []*Segment // by ordinal
	Snapshots []uint64   // rising
	spares    []vfs.FileInfo
	resets    []*Segment
	repairs   []*Segment
	begins    []*Segment // marks, see beginMark
	Begin     *Segment   // ordinal and first index of the segment that the log begins with; nil: not known
	Aside     []string
	Foreign   []ForeignFile
	Temporary []string
}

// list returns the files of the log, without foreign files, and learns whose log it is.
func (d *Dir) List() (*Files, error) {
	found, err := d.listed()
	if err != nil {
		return nil, err
	}
	if err := d.findOwner(found); err != nil {
		return nil, err
	}
	return found, d.leaveForeign(found)
}

// listed sorts the names in the directory.
func (d *Dir) listed() (*Files, error) {
	infos, err := d.FS.List(d.Path)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d.Path, err)
	}
	found := &Files{}
	for _, info := range infos {
		found.all = append(found.all, info.Name)
		stem, suffix, _ := strings.Cut(info.Name, ".")
		switch suffix {
		case "seg":
			if seg, ok := parseSegmentName(stem); ok {
				seg.Path, seg.Size = filepath.Join(d.Path, info.Name), info.Size
				seg.filled.Store(info.Size)
				found.Segments = append(found.Segments, seg)
			}
		case "snap":
			if index, err := strconv.ParseUint(stem, 10, 64); err == nil && len(stem) == 20 {
				found.Snapshots = append(found.Snapshots, index)
			}
		case "spare":
			if _, err := strconv.ParseUint(stem, 10, 64); err == nil && len(stem) == 20 {
				found.spares = append(found.spares, info)
			}
		case "reset":
			if seg, ok := parseSegmentName(stem); ok {
				seg.Path = filepath.Join(d.Path, info.Name)
				found.resets = append(found.resets, seg)
			}
		case "repair":
			if seg, ok := parseSegmentName(stem); ok {
				seg.Path, seg.Size = filepath.Join(d.Path, info.Name), info.Size
				found.repairs = append(found.repairs, seg)
			}
		case "begin":
			if seg, ok := parseSegmentName(stem); ok {
				seg.Path = filepath.Join(d.Path, info.Name)
				found.begins = append(found.begins, seg)
			}
		case "snap.tmp", "repair.tmp", "begin.tmp":
			found.Temporary = append(found.Temporary, info.Name)
		}
		if info.Name == GivenName || info.Name == watermarkName+vfs.TemporarySuffix {
			found.Temporary = append(found.Temporary, info.Name)
		}
		if strings.HasSuffix(info.Name, badSuffix) {
			found.Aside = append(found.Aside, info.Name)
		}
	}
	slices.SortFunc(found.Segments, func(a, b *Segment) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.First, b.First))
	})
	slices.Sort(found.Snapshots)
	return found, nil
}

func parseSegmentName(stem string) (*Segment, bool) {
	ordinal, first, ok := strings.Cut(stem, "-")
	if !ok || len(ordinal) != 20 || len(first) != 20 {
		return nil, false
	}
	o, err := strconv.ParseUint(ordinal, 10, 64)
	if err != nil {
		return nil, false
	}
	f, err := strconv.ParseUint(first, 10, 64)
	if err != nil || f == 0 {
		return nil, false
	}
	return &Segment{Ordinal: o, First: f}, true
}

// adopt takes the segments from the one on that the log begins with. Those below
// are returned: a crash brings back some of the names that Recycle had removed.
// It refuses a log of which one is missing.
func (s *Store) adopt(found *Files) (leftover []*Segment, err error) {
	kept := found.Segments
	if b := found.Begin; b != nil {
		from := sort.Search(len(kept), func(k int) bool { return kept[k].Ordinal >= b.Ordinal })
		leftover, kept = kept[:from], kept[from:]
	}
	for k, seg := range kept {
		switch {
		case k > 0 && kept[k-1].Ordinal+1 != seg.Ordinal:
			return nil, s.suspect(found, kept[k-1].Ordinal, seg.Ordinal)
		case k == 0 && found.Begin != nil && seg.Ordinal != found.Begin.Ordinal:
			return nil, s.suspect(found, found.Begin.Ordinal, seg.Ordinal)
		}
	}
	if len(kept) == 0 {
		return nil, s.suspect(found, found.Begin.Ordinal, found.Begin.Ordinal)
	}
	s.segments = kept
	for _, seg := range s.segments {
		s.push(seg)
	}
	s.active = s.segments[len(s.segments)-1]
	return leftover, nil
}

// recoverActive scans the last segment. All segments before it were synced
// before it was begun, so it is the only one that can have a torn tail.
func (s *Store) recoverActive(found *Files) (*scan, error) {
	active := s.active
	active.users = 1
	var err error
	if active.file, err = s.FS.Open(active.Path); err != nil {
		return nil, err
	}
	h, err := s.ReadHeader(active, active.file)
	if errors.As(err, new(*segment.CorruptError)) {
		return nil, s.suspect(found, active.Ordinal, active.Ordinal)
	}
	if err != nil {
		return nil, err
	}
	sc, err := scanFile(active.file, active.Path, h, active.Size, false)
	if err != nil {
		if vfs.Unreadable(err) {
			return nil, s.suspect(found, active.Ordinal, active.Ordinal)
		}
		return nil, err
	}
	active.header, active.index, active.end = h, sc.index, sc.index.Next
	s.hard, s.conf = sc.hard, h.Conf
	s.position, s.before, s.stagedNext = sc.Position, sc.before, sc.index.Next
	s.marked = sc.marked
	s.filler.position.Store(s.position)
	s.torn = h.Rebuilt()
	torn, corrupt := false, false
	if sc.Bad != nil {
		if torn, corrupt, err = sc.LookBehind(); vfs.Unreadable(err) {
			return nil, s.suspect(found, active.Ordinal, active.Ordinal)
		} else if err != nil {
			return nil, err
		}
	}
	behind := s.watermark.Missing(LogEnd{h, s.position, s.hard, s.stagedNext - 1}) != ""
	if corrupt || behind {
		return nil, s.suspect(found, active.Ordinal, active.Ordinal)
	}
	if torn {
		s.Options.Logger.Info("cut a torn tail: what follows was never synced",
			"file", active.Path, "position", s.position, "last_index", s.stagedNext-1, "found", sc.Bad)
	}
	s.torn = s.torn || torn
	return sc, nil
}

// settle makes what was found durable: names and bytes may be in the page
// cache only, and from here on everyone relies on them. After a failed fsync the cache can
// hold pages that are not on the disk and will never be written again, because
// the kernel believes they were. So everything that no frame vouches for is
// written once more, as it is, and synced.
func (s *Store) settle(sc *scan) error {
	active := s.active
	for at := sc.vouched; at < s.position; {
		b := make([]byte, min(PieceBytes, s.position-at))
		if _, err := active.file.ReadAt(b, at); err != nil {
			return fmt.Errorf("settle %s: %w", active.Path, err)
		}
		if _, err := active.file.WriteAt(b, at); err != nil {
			return fmt.Errorf("settle %s: %w", active.Path, err)
		}
		at += int64(len(b))
	}
	if err := active.file.Datasync(); err != nil {
		return fmt.Errorf("settle %s: %w", active.Path, err)
	}
	if err := s.SyncDir(); err != nil {
		return fmt.Errorf("settle %s: %w", s.Path, err)
	}
	s.noteDurable()
	return nil
}

// AsCreated reports whether the log begins with the segment that Create made. It has
// all its entries then, and the state before them is that of every new log.
func (f *Files) AsCreated() bool {
	if f.Begin != nil {
		return f.Begin.Ordinal == 1
	}
	return f.Segments[0].Ordinal == 1
}

// recoverSnapshots finds the newest valid snapshot. Without one there is
// nothing to begin from, unless all entries are there, and entries are missed that
// the log does not have and a snapshot covers.
func (s *Store) recoverSnapshots(found *Files) error {
	snapshots := found.Snapshots
	if n, last := len(snapshots), s.LastIndex(); n > 0 && snapshots[n-1] > last {
		return &segment.CorruptError{
			File: s.SnapshotPath(snapshots[n-1]), FirstIndex: last + 1, LastIndex: snapshots[n-1], Renew: true,
			Detail: fmt.Sprintf("the log ends at entry %d, and had this one when the snapshot was taken", last),
		}
	}
	index, _, _, err := s.newestSnapshot(snapshots)
	first := s.live[0].First
	switch {
	case errors.Is(err, segment.ErrNoSnapshot) && found.AsCreated():
		s.Options.Logger.Error("no snapshot is valid; the log is read from its first entry on", "dir", s.Path)
		s.rotten = snapshots
		return nil
	case errors.Is(err, segment.ErrNoSnapshot) && len(snapshots) > 0:
		newest := snapshots[len(snapshots)-1]
		return &segment.CorruptError{
			File: s.SnapshotPath(newest), FirstIndex: 1, LastIndex: newest, Renew: true, Detail: "no snapshot is valid",
		}
	case errors.Is(err, segment.ErrNoSnapshot) || err == nil && index+1 < first:
		return &segment.CorruptError{
			File: s.live[0].Path, FirstIndex: index + 1, LastIndex: first - 1, Renew: true,
			Detail: "no snapshot covers what is missing before it",
		}
	case err != nil:
		return err
	}
	newest, _ := slices.BinarySearch(snapshots, index)
	s.snapshots = slices.Clone(snapshots[:newest+1])
	return nil
}

// removeLeftover removes what crashes left behind.
func (d *Dir) removeLeftover(segments []*Segment, temporary []string) error {
	if len(segments) == 0 && len(temporary) == 0 {
		return nil
	}
	for _, seg := range segments {
		temporary = append(temporary, filepath.Base(seg.Path))
	}
	for _, name := range temporary {
		if err := d.FS.Remove(filepath.Join(d.Path, name)); err != nil {
			return fmt.Errorf("remove what a crash left: %w", err)
		}
	}
	return d.SyncDir()
}

// adoptSpares keeps the spares that were there.
func (s *Store) adoptSpares(infos []vfs.FileInfo) error {
	for _, info := range infos {
		path := filepath.Join(s.Path, info.Name)
		number, _ := strconv.ParseUint(strings.TrimSuffix(info.Name, ".spare"), 10, 64)
		s.spares.number = max(s.spares.number, number)
		if len(s.spares.kept) == sparesMax {
			if err := s.FS.Remove(path); err != nil {
				return fmt.Errorf("remove a spare segment: %w", err)
			}
			continue
		}
		s.spares.kept = append(s.spares.kept, &spare{path: path, filled: info.Size, named: true})
	}
	return nil
}
