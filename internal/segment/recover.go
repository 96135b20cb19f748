package segment

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"strandline.dev/test/flaw"
)

// Open recovers the log in dir. It reads the last segment and the newest
// snapshot; what it costs does not grow with the log. It needs no room on
// disk: the segment that follows a torn tail is begun by the first write.
//
// ErrNoLog: there is none. *CorruptError: bytes that were durable are damaged;
// no file was changed.
func Open(disk FS, dir string, o Options) (*Store, error) {
	s := &Store{fs: disk, dir: dir, options: o.withDefaults()}
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
	found, err := s.list()
	if err != nil {
		return err
	}
	s.adoptBegin(found)
	if found, err = s.finishSwaps(found); err != nil {
		return err
	}
	if len(found.segments) == 0 && found.begin == nil {
		return ErrNoLog
	}
	lacks, err := s.readWitness()
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
	if err := s.recoverSnapshots(found.snapshots); err != nil {
		return err
	}
	if lacks != nil {
		s.options.Logger.Warn("the log has no witness of how far it went; it gets another one", "dir", s.dir, "reason", lacks)
	}
	s.hard.Commit = min(max(s.hard.Commit, s.FirstIndex()-1), s.LastIndex())
	if err := s.settle(sc); err != nil {
		return err
	}
	if err := s.setStraysAside(found.strays); err != nil {
		return err
	}
	if err := s.removeLeftover(leftover, found.temporary); err != nil {
		return err
	}
	if err := s.dropSnapshots(); err != nil {
		return err
	}
	if err := s.adoptSpares(found.spares); err != nil {
		return err
	}
	if err := s.holdHandles(); err != nil {
		return err
	}
	// A term or a vote that was written when the process ended, and is durable only
	// now, binds the replica: it may grant that vote again without writing it.
	return s.testifyIfDue()
}

// files are the names in a log's directory.
type files struct {
	all       []string
	segments  []*segment // by ordinal
	snapshots []uint64   // rising
	spares    []FileInfo
	resets    []*segment
	mends     []*segment
	begins    []*segment // marks, see beginMark
	begin     *segment   // ordinal and first index of the segment that the log begins with; nil: not known
	aside     []string
	strays    []stray
	temporary []string
}

// list returns the files of the log, without strays, and learns whose log it is.
func (s *Store) list() (*files, error) {
	found, err := s.listed()
	if err != nil {
		return nil, err
	}
	if err := s.findOwner(found); err != nil {
		return nil, err
	}
	return found, s.leaveStrays(found)
}

// listed sorts the names in the directory.
func (s *Store) listed() (*files, error) {
	infos, err := s.fs.List(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", s.dir, err)
	}
	found := &files{}
	for _, info := range infos {
		found.all = append(found.all, info.Name)
		stem, suffix, _ := strings.Cut(info.Name, ".")
		switch suffix {
		case "seg":
			if seg, ok := parseSegmentName(stem); ok {
				seg.path, seg.size = filepath.Join(s.dir, info.Name), info.Size
				seg.filled.Store(info.Size)
				found.segments = append(found.segments, seg)
			}
		case "snap":
			if index, err := strconv.ParseUint(stem, 10, 64); err == nil && len(stem) == 20 {
				found.snapshots = append(found.snapshots, index)
			}
		case "spare":
			if number, err := strconv.ParseUint(stem, 10, 64); err == nil && len(stem) == 20 {
				found.spares = append(found.spares, info)
				s.spares.given(number)
			}
		case "reset":
			if seg, ok := parseSegmentName(stem); ok {
				seg.path = filepath.Join(s.dir, info.Name)
				found.resets = append(found.resets, seg)
			}
		case "mend":
			if seg, ok := parseSegmentName(stem); ok {
				seg.path, seg.size = filepath.Join(s.dir, info.Name), info.Size
				found.mends = append(found.mends, seg)
			}
		case "begin":
			if seg, ok := parseSegmentName(stem); ok {
				seg.path = filepath.Join(s.dir, info.Name)
				found.begins = append(found.begins, seg)
			}
		case "snap.tmp", "mend.tmp", "begin.tmp":
			found.temporary = append(found.temporary, info.Name)
		}
		if info.Name == givenName || info.Name == witnessName+temporarySuffix {
			found.temporary = append(found.temporary, info.Name)
		}
		if strings.HasSuffix(info.Name, badSuffix) {
			found.aside = append(found.aside, info.Name)
		}
	}
	slices.SortFunc(found.segments, func(a, b *segment) int {
		return cmp.Or(cmp.Compare(a.ordinal, b.ordinal), cmp.Compare(a.first, b.first))
	})
	slices.Sort(found.snapshots)
	return found, nil
}

func parseSegmentName(stem string) (*segment, bool) {
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
	return &segment{ordinal: o, first: f}, true
}

// adopt takes the segments from the one on that the log begins with. Those below
// are returned: a crash brings back some of the names that Recycle had removed.
// It refuses a log of which one is missing.
func (s *Store) adopt(found *files) (leftover []*segment, err error) {
	kept := found.segments
	if b := found.begin; b != nil {
		from := sort.Search(len(kept), func(k int) bool { return kept[k].ordinal >= b.ordinal })
		leftover, kept = kept[:from], kept[from:]
	}
	for k, seg := range kept {
		switch {
		case k > 0 && kept[k-1].ordinal+1 != seg.ordinal:
			return nil, s.judge(found, kept[k-1].ordinal, seg.ordinal)
		case k == 0 && found.begin != nil && seg.ordinal != found.begin.ordinal:
			return nil, s.judge(found, found.begin.ordinal, seg.ordinal)
		}
	}
	if len(kept) == 0 {
		return nil, s.judge(found, found.begin.ordinal, found.begin.ordinal)
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
func (s *Store) recoverActive(found *files) (*scanner, error) {
	active := s.active
	active.users = 1
	var err error
	if active.file, err = s.fs.Open(active.path); err != nil {
		return nil, err
	}
	h, err := s.readHeader(active, active.file)
	if errors.As(err, new(*CorruptError)) {
		return nil, s.judge(found, active.ordinal, active.ordinal)
	}
	if err != nil {
		return nil, err
	}
	sc := &scanner{file: active.file, path: active.path, header: h, size: active.size}
	if err := sc.scan(); err != nil {
		if unreadable(err) {
			return nil, s.judge(found, active.ordinal, active.ordinal)
		}
		return nil, err
	}
	active.header, active.index, active.end = h, sc.index, sc.index.next
	s.hard, s.conf = sc.hard, h.conf
	s.position, s.before, s.stagedNext = sc.position, sc.before, sc.index.next
	s.marked = sc.marked
	s.filler.position.Store(s.position)
	s.torn = h.mended()
	if sc.bad != nil {
		if err := sc.lookBehind(); unreadable(err) {
			return nil, s.judge(found, active.ordinal, active.ordinal)
		} else if err != nil {
			return nil, err
		}
	}
	behind := s.witness.misses(tip{h, s.position, s.hard, s.stagedNext - 1}) != ""
	if (sc.corrupt || behind) && !flaw.Is(flaw.CutAtBadChecksum) {
		return nil, s.judge(found, active.ordinal, active.ordinal)
	}
	s.torn = s.torn || sc.torn
	return sc, nil
}

// settle makes what was found durable: names and bytes may be in the page
// cache only, and from here on everyone relies on them. After a failed fsync the cache can
// hold pages that are not on the disk and will never be written again, because
// the kernel believes they were. So everything that no frame vouches for is
// written once more, as it is, and synced.
func (s *Store) settle(sc *scanner) error {
	active := s.active
	if flaw.Is(flaw.RecoveryTrustsTheCache) {
		s.noteDurable()
		return nil
	}
	for at := sc.vouched; at < s.position; {
		b := make([]byte, min(scanChunk, s.position-at))
		if _, err := active.file.ReadAt(b, at); err != nil {
			return fmt.Errorf("settle %s: %w", active.path, err)
		}
		if _, err := active.file.WriteAt(b, at); err != nil {
			return fmt.Errorf("settle %s: %w", active.path, err)
		}
		at += int64(len(b))
	}
	if err := active.file.Datasync(); err != nil {
		return fmt.Errorf("settle %s: %w", active.path, err)
	}
	if err := s.syncDir(); err != nil {
		return fmt.Errorf("settle %s: %w", s.dir, err)
	}
	s.noteDurable()
	if sc.torn {
		s.options.Logger.Info("cut a torn tail: what follows was never synced",
			"file", active.path, "position", s.position, "last_index", s.LastIndex(), "found", sc.bad)
	}
	return nil
}

// recoverSnapshots finds the newest valid snapshot. Without one there is
// nothing to begin from, and entries are missed that the log does not have and
// a snapshot covers.
func (s *Store) recoverSnapshots(snapshots []uint64) error {
	if n, last := len(snapshots), s.LastIndex(); n > 0 && snapshots[n-1] > last {
		return &CorruptError{
			File: s.snapshotPath(snapshots[n-1]), FirstIndex: last + 1, LastIndex: snapshots[n-1], Renew: true,
			Detail: fmt.Sprintf("the log ends at entry %d, and had this one when the snapshot was taken", last),
		}
	}
	index, _, _, err := s.newestSnapshot(snapshots)
	first := s.live[0].first
	switch {
	case errors.Is(err, ErrNoSnapshot) && len(snapshots) > 0:
		newest := snapshots[len(snapshots)-1]
		return &CorruptError{
			File: s.snapshotPath(newest), FirstIndex: 1, LastIndex: newest, Renew: true, Detail: "no snapshot is valid",
		}
	case errors.Is(err, ErrNoSnapshot) || err == nil && index+1 < first:
		return &CorruptError{
			File: s.live[0].path, FirstIndex: index + 1, LastIndex: first - 1, Renew: true,
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
func (s *Store) removeLeftover(segments []*segment, temporary []string) error {
	if len(segments) == 0 && len(temporary) == 0 {
		return nil
	}
	for _, seg := range segments {
		temporary = append(temporary, filepath.Base(seg.path))
	}
	for _, name := range temporary {
		if err := s.fs.Remove(filepath.Join(s.dir, name)); err != nil {
			return fmt.Errorf("remove what a crash left: %w", err)
		}
	}
	return s.syncDir()
}

// adoptSpares keeps the spares that were there.
func (s *Store) adoptSpares(infos []FileInfo) error {
	for _, info := range infos {
		path := filepath.Join(s.dir, info.Name)
		if len(s.spares.kept) == sparesMax {
			if err := s.fs.Remove(path); err != nil {
				return fmt.Errorf("remove a spare segment: %w", err)
			}
			continue
		}
		s.spares.kept = append(s.spares.kept, &spare{path: path, filled: info.Size, named: true})
	}
	return nil
}
