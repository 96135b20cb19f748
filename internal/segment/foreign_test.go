package segment_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/test/disk/faultdisk"
)

// foreign is a directory with a log of another owner on the same disk. Its
// files have the names, sizes, indexes and terms of those in dir; only the records
// differ.
const foreign = "data/foreign"

// ownedEntry is entry i as the log of owner has it.
func ownedEntry(i uint64, owner segment.Owner) segment.Entry {
	f := entry(i, 1, 1000)
	copy(f.Payload, owner.String())
	f.CRC = record.Checksum(f.Payload)
	return f
}

func ownedEntries(lo, hi uint64, owner segment.Owner) []segment.Entry {
	frames := make([]segment.Entry, 0, hi-lo)
	for i := lo; i < hi; i++ {
		frames = append(frames, ownedEntry(i, owner))
	}
	return frames
}

var (
	ours   = segment.Owner{Cluster: "C", Log: 3, Replica: 7}
	theirs = segment.Owner{Cluster: "C", Log: 4, Replica: 9}
)

// exchangeEntries are in each of the logs, in several segments.
const exchangeEntries = 60

// owned makes a log whose first entries were recycled.
func owned(t *testing.T, disk *faultdisk.Disk, dir string, owner segment.Owner) (older map[string][]byte) {
	t.Helper()
	o := options(disk)
	o.Owner = owner
	s, err := store.Create(disk, dir, o, bootstrap())
	require.NoError(t, err)
	older = map[string][]byte{}
	for i := uint64(2); i < exchangeEntries; i++ {
		saveStarts(t, s, write(t, s, []segment.Write{{
			Entries: []segment.Entry{ownedEntry(i, owner)}, HardState: &segment.HardState{Term: 1, Vote: i % 3, Commit: i - 1}, MustSync: true,
		}}))
		if i == exchangeEntries/2 || i == exchangeEntries-2 {
			for _, name := range disk.Names() {
				if path.Dir(name) == dir {
					older[name] = disk.Content(name)
				}
			}
		}
	}
	require.NoError(t, trim(s, 20))
	require.NoError(t, s.Close())
	disk.Restart()
	return older
}

// namesIn are the files of a log with a suffix, sorted.
func namesIn(disk *faultdisk.Disk, dir, suffix string) (names []string) {
	for _, name := range disk.Names() {
		if path.Dir(name) == dir && strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	return names
}

// TestAFileOfAnotherLogIsNeverServed puts files of another log, or others of its
// own, in the place of those of a log. Whatever happens to it, no entry is read
// that is not its own; what is not its own is named; and the log is whole again
// with what others have, or its replica has to be renewed.
func TestAFileOfAnotherLogIsNeverServed(t *testing.T) {
	const (
		repaired = "repaired" // with entries of others, if any are missing
		renewed  = "renewed"  // the replica comes back under a new id
	)
	// at is the n-th file with a suffix; below 0, from the end.
	at := func(disk *faultdisk.Disk, dir, suffix string, n int) string {
		names := namesIn(disk, dir, suffix)
		if n < 0 {
			n += len(names)
		}
		return names[n]
	}
	exchange := func(disk *faultdisk.Disk, a, b string) {
		content := disk.Content(a)
		disk.Replace(a, disk.Content(b))
		disk.Replace(b, content)
	}
	swap := func(suffix string, n int) func(*faultdisk.Disk) string {
		return func(disk *faultdisk.Disk) string {
			name := at(disk, dir, suffix, n)
			exchange(disk, name, at(disk, foreign, suffix, n))
			return name
		}
	}
	rows := []struct {
		name   string
		change func(disk *faultdisk.Disk) (named string)
		result string
		detail string
	}{
		{"the first segment is exchanged with that of another log", swap(".seg", 0), repaired, "belongs to replica 9 of log 4"},
		{"a segment in the middle is exchanged", swap(".seg", 2), repaired, "belongs to replica 9 of log 4"},
		{"the newest segment is exchanged", swap(".seg", -1), renewed, "belongs to replica 9 of log 4"},
		{"the newest snapshot is exchanged", swap(".snap", -1), repaired, "belongs to replica 9 of log 4"},
		{"the oldest snapshot is exchanged", swap(".snap", 0), repaired, "belongs to replica 9 of log 4"},
		{"the watermark is exchanged", swap("watermark", 0), repaired, "belongs to replica 9 of log 4"},
		{"the begin mark is exchanged", swap(".begin", 0), repaired, "belongs to replica 9 of log 4"},
		{"all files are exchanged", func(disk *faultdisk.Disk) string {
			for _, name := range namesIn(disk, dir, "") {
				exchange(disk, name, path.Join(foreign, path.Base(name)))
			}
			return at(disk, dir, ".seg", -1)
		}, renewed, "belongs to replica 9 of log 4"},
		{"all segments but the newest are copies of another log's", func(disk *faultdisk.Disk) string {
			names := namesIn(disk, dir, ".seg")
			for _, name := range names[:len(names)-1] {
				disk.Replace(name, disk.Content(path.Join(foreign, path.Base(name))))
			}
			return names[0]
		}, repaired, "belongs to replica 9 of log 4"},
		{"a segment is exchanged, and its header cannot be read", func(disk *faultdisk.Disk) string {
			name := swap(".seg", 1)(disk)
			disk.FlipBit(name, 40)
			return name
		}, repaired, "segment header has CRC"},
		{"two segments of the log are exchanged", func(disk *faultdisk.Disk) string {
			exchange(disk, at(disk, dir, ".seg", 1), at(disk, dir, ".seg", 2))
			return at(disk, dir, ".seg", 1)
		}, repaired, "header of segment"},
		{"a snapshot has the name of another", func(disk *faultdisk.Disk) string {
			disk.Replace(at(disk, dir, ".snap", -1), disk.Content(at(disk, dir, ".snap", 0)))
			return at(disk, dir, ".snap", -1)
		}, repaired, "snapshot of entry"},
		{"a segment lies there again as one of entry 1", func(disk *faultdisk.Disk) string {
			name := at(disk, dir, ".seg", 1)
			twin := name[:strings.LastIndex(name, "-")+1] + fmt.Sprintf("%020d.seg", 1)
			disk.Replace(twin, disk.Content(name))
			return twin
		}, repaired, "it is not part of this log"},
		{"a segment was renamed to the newest", func(disk *faultdisk.Disk) string {
			name := at(disk, dir, ".seg", 0)
			renamed := path.Join(dir, fmt.Sprintf("%020d-%020d.seg", 900, 900))
			disk.Replace(renamed, disk.Content(name))
			disk.Lose(name)
			return renamed
		}, repaired, "header of segment"},
		{"a segment of another log is to replace all", func(disk *faultdisk.Disk) string {
			order := path.Join(dir, fmt.Sprintf("%020d-%020d.reset", 900, 900))
			disk.Replace(order, disk.Content(at(disk, foreign, ".seg", -1)))
			return order
		}, repaired, "it is not part of this log"},
		{"an older segment of the log is to replace all", func(disk *faultdisk.Disk) string {
			name := at(disk, dir, ".seg", 1)
			order := strings.TrimSuffix(name, ".seg") + ".reset"
			disk.Replace(order, disk.Content(name))
			return order
		}, repaired, "the file would replace segment"},
		{"a segment of another log is to replace a damaged one", func(disk *faultdisk.Disk) string {
			order := strings.TrimSuffix(at(disk, dir, ".seg", 1), ".seg") + ".repair"
			disk.Replace(order, disk.Content(at(disk, foreign, ".seg", 1)))
			return order
		}, repaired, "it is not part of this log"},
		{"the begin mark of another log, higher up", func(disk *faultdisk.Disk) string {
			mark := path.Join(dir, fmt.Sprintf("%020d-%020d.begin", 4, 50))
			disk.Replace(mark, disk.Content(at(disk, foreign, ".begin", 0)))
			return mark
		}, repaired, "it is not part of this log"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			disk := faultdisk.New(7)
			owned(t, disk, dir, ours)
			owned(t, disk, foreign, theirs)
			named := row.change(disk)
			changed := contents(disk)

			report, err := repair.Survey(context.Background(), disk, dir, store.Options{Owner: ours}, nil)
			require.NoError(t, err)
			require.Equal(t, changed, contents(disk), "Survey changed a file")
			requireNamed(t, report, named, row.detail)
			requireOwnEntriesOnly(t, disk)

			o := options(disk)
			o.Owner = ours
			m, err := repair.Begin(context.Background(), disk, dir, o)
			if row.result == renewed {
				require.ErrorIs(t, err, repair.ErrNotRepairable)
				return
			}
			require.NoError(t, err)
			for _, w := range m.Wants(100) {
				_, err := m.Give(ownedEntries(w.First, min(w.To+1, exchangeEntries), ours), exchangeEntries-1)
				require.NoError(t, err)
			}
			_, err = m.Finish()
			require.NoError(t, err)
			s, err := repair.Open(disk, dir, o)
			require.NoError(t, err)
			requireEntries(t, s, ownedEntries(s.FirstIndex(), exchangeEntries, ours))
			require.NoError(t, s.Close())
			report, err = repair.Survey(context.Background(), disk, dir, store.Options{Owner: ours}, nil)
			require.NoError(t, err)
			require.Empty(t, report.Damage)
		})
	}
}

func requireNamed(t *testing.T, report *repair.Report, file, detail string) {
	t.Helper()
	for _, d := range report.Damage {
		if d.File == file && strings.Contains(d.Detail, detail) {
			return
		}
	}
	t.Fatalf("no damage of %s that says %q in %+v", file, detail, report.Damage)
}

// requireOwnEntriesOnly opens the log, if it can be opened, and reads all that
// can be read.
func requireOwnEntriesOnly(t *testing.T, disk *faultdisk.Disk) {
	t.Helper()
	before := contents(disk)
	defer func() {
		for name := range contents(disk) {
			if _, was := before[name]; !was {
				disk.Lose(name)
			}
		}
		for name, content := range before {
			disk.Replace(name, []byte(content))
		}
		disk.Restart()
	}()
	o := options(disk)
	o.Owner = ours
	s, err := repair.Open(disk, dir, o)
	if errors.As(err, new(*segment.CorruptError)) {
		return
	}
	require.NoError(t, err)
	_, _, data, err := s.LoadSnapshot()
	require.NoError(t, err)
	require.NotEmpty(t, data)
	for i := s.FirstIndex(); i <= s.LastIndex(); i++ {
		frames, err := s.Entries(i, i+1, 1)
		if err != nil {
			require.True(t, errors.As(err, new(*segment.CorruptError)) || errors.Is(err, fs.ErrNotExist), "%v", err)
			continue
		}
		require.True(t, sameFrame(ownedEntry(i, ours), frames[0]), "entry %d is another one", i)
	}
	require.NoError(t, s.Close())
}

// TestALogKnowsItsOwnFilesOnly proves that each kind of file carries its owner,
// and that a tool which does not know whose log it reads learns it.
func TestALogKnowsItsOwnFilesOnly(t *testing.T) {
	for _, other := range []segment.Owner{{"D", 3, 7}, {"C", 4, 7}, {"C", 3, 8}} {
		disk := faultdisk.New(7)
		owned(t, disk, dir, ours)
		report, err := repair.Survey(context.Background(), disk, dir, store.Options{}, nil)
		require.NoError(t, err)
		require.Empty(t, report.Damage)
		require.Equal(t, ours, report.Owner)
		report, err = repair.Survey(context.Background(), disk, dir, store.Options{Owner: other}, nil)
		require.NoError(t, err)
		for _, suffix := range []string{".seg", ".snap", ".begin", "watermark"} {
			for _, name := range namesIn(disk, dir, suffix) {
				requireNamed(t, report, name, "belongs to")
			}
		}
	}
}

// TestAnOlderCopyOfAFullSegmentIsDamage: the next segment knows where it ended.
func TestAnOlderCopyOfAFullSegmentIsDamage(t *testing.T) {
	disk := faultdisk.New(7)
	older := owned(t, disk, dir, ours)
	for name, content := range older {
		if !strings.HasSuffix(name, ".seg") || disk.Content(name) == nil || bytes.Equal(content, disk.Content(name)) || name == newestOn(disk) {
			continue
		}
		now := disk.Content(name)
		disk.Replace(name, content)
		report, err := repair.Survey(context.Background(), disk, dir, store.Options{Owner: ours}, nil)
		require.NoError(t, err)
		require.NotEmpty(t, report.Damage, name)
		disk.Replace(name, now)
	}
}

// The ordinals in names say how many segments are missing between two files. A name
// that somebody gave must not make a node look for a million of them.
func TestASegmentUnderANameFarAwayIsSetAside(t *testing.T) {
	const far = 1 << 20
	rows := map[string]struct {
		n      int // of the segments
		damage func(disk *faultdisk.Disk, name string)
	}{
		"one in the middle": {n: 2},
		"the newest":        {n: -1},
		"the newest, and its header cannot be read":    {n: -1, damage: func(disk *faultdisk.Disk, name string) { disk.FlipBit(name, 20) }},
		"one in the middle, whose header is not valid": {n: 2, damage: func(disk *faultdisk.Disk, name string) { disk.FlipBit(name, 20) }},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			disk := faultdisk.New(1)
			owned(t, disk, dir, ours)
			names := namesIn(disk, dir, ".seg")
			from := names[(row.n+len(names))%len(names)]
			if row.damage != nil {
				row.damage(disk, from)
			}
			var ordinal, first uint64
			_, err := fmt.Sscanf(path.Base(from), "%d-%d.seg", &ordinal, &first)
			require.NoError(t, err)
			to := path.Join(dir, fmt.Sprintf("%020d-%020d.seg", ordinal+far, first))
			require.NoError(t, disk.Rename(from, to))
			require.NoError(t, disk.SyncDir(dir))

			report, err := repair.Survey(t.Context(), disk, dir, store.Options{Owner: ours}, nil)
			require.NoError(t, err)
			require.False(t, report.Whole())
			require.Less(t, len(report.Damage), 10)
			require.Contains(t, fmt.Sprint(report.Damage), path.Base(to), "it is named")
			_, err = repair.Open(disk, dir, store.Options{Owner: ours, Manual: true})
			require.ErrorAs(t, err, new(*segment.CorruptError))
		})
	}
}
