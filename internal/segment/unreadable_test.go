package segment_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/faultdisk"
)

// A disk that has lost a sector says so, again and again. What was there is
// damaged like what it gives back wrongly, and is repaired from others.
func TestASectorThatCannotBeReadIsRepaired(t *testing.T) {
	places := map[string]func(t *testing.T, c *copies, name string) (from, size int64){
		"in a payload": func(t *testing.T, c *copies, name string) (int64, int64) {
			f := frameIn(t, c.disks[0], name, "entry", 2)
			return f.Position + f.Size - 1, 1
		},
		"a frame's header": func(t *testing.T, c *copies, name string) (int64, int64) {
			return frameIn(t, c.disks[0], name, "entry", 1).Position, 1
		},
		"the footer, and what shares its sector": func(t *testing.T, c *copies, name string) (int64, int64) {
			f := frameIn(t, c.disks[0], name, "footer", -1)
			return f.Position, f.Size
		},
		"the segment's header": func(*testing.T, *copies, string) (int64, int64) { return 0, 1 },
		"all of it": func(t *testing.T, c *copies, name string) (int64, int64) {
			return 0, int64(len(c.disks[0].Content(name)))
		},
	}
	for what, place := range places {
		t.Run(what, func(t *testing.T) {
			c := newCopies(t, 7, 60)
			segments := segmentsOn(c.disks[0])
			name := segments[len(segments)-3]
			from, size := place(t, c, name)
			c.disks[0].Unreadable(name, from, size)

			var corrupt *segment.CorruptError
			require.ErrorAs(t, readAll(c), &corrupt)
			require.Equal(t, name, corrupt.File)
			c.disks[0].Restart()
			_, err := repairFiles(c.disks[0], c.giver(t), c.commit, 1<<20)
			require.NoError(t, err)
			c.requireWhole(t)
		})
	}
}

// Where nothing vouches for what follows, unreadable bytes are not taken for the
// end of the log.
func TestANewestSegmentThatCannotBeReadIsNotCut(t *testing.T) {
	c := newCopies(t, 7, 60)
	segments := segmentsOn(c.disks[0])
	name := segments[len(segments)-1]
	f := frameIn(t, c.disks[0], name, "entry", -1)
	c.disks[0].Unreadable(name, f.Position, f.Size)
	before := contents(c.disks[0])
	_, err := repair.Open(c.disks[0], dir, options(c.disks[0]))
	require.ErrorContains(t, err, "input/output error")
	c.disks[0].Restart()
	require.Equal(t, before, contents(c.disks[0]))
}

// readAll opens the first copy and reads every entry.
func readAll(c *copies) error {
	s, err := repair.Open(c.disks[0], dir, options(c.disks[0]))
	if err != nil {
		return err
	}
	defer s.Close()
	for i := s.FirstIndex(); i <= s.LastIndex(); {
		frames, err := s.Entries(i, s.LastIndex()+1, 1<<20)
		if err != nil {
			return err
		}
		i += uint64(len(frames))
	}
	return nil
}

// A sector that cannot be read in a small file is damage like any other: the log
// opens with what else there is, or its replica is renewed. Neither recycling nor
// the next watermark stumbles over it.
func TestASmallFileThatCannotBeReadIsDamage(t *testing.T) {
	t.Run("the newest snapshot", func(t *testing.T) {
		disk := faultdisk.New(7)
		owned(t, disk, dir, ours)
		snapshots := namesIn(disk, dir, ".snap")
		newest := snapshots[len(snapshots)-1]
		disk.Unreadable(newest, 0, 512)
		s := openOurs(t, disk)
		index, _, _, err := s.LoadSnapshot()
		require.NoError(t, err)
		require.Less(t, index, uint64(exchangeEntries-10), "the one before")
		first := s.FirstIndex()
		require.NoError(t, trim(s, exchangeEntries-1))
		require.Greater(t, s.FirstIndex(), first)
		require.NoError(t, s.Close())
		report, err := repair.Survey(t.Context(), disk, dir, store.Options{Owner: ours}, nil)
		require.NoError(t, err)
		requireNamed(t, report, newest, "input/output error")
	})
	t.Run("all snapshots", func(t *testing.T) {
		disk := faultdisk.New(7)
		owned(t, disk, dir, ours)
		for _, name := range namesIn(disk, dir, ".snap") {
			disk.Unreadable(name, 0, 512)
		}
		o := options(disk)
		o.Owner = ours
		_, err := repair.Open(disk, dir, o)
		var corrupt *segment.CorruptError
		require.ErrorAs(t, err, &corrupt)
		require.True(t, corrupt.Renew)
	})
	t.Run("the watermark", func(t *testing.T) {
		disk := faultdisk.New(7)
		owned(t, disk, dir, ours)
		disk.Unreadable(watermarkFile, 0, 512)
		s := openOurs(t, disk)
		write(t, s, synced(ownedEntry(exchangeEntries, ours)))
		require.NoError(t, s.Close())
		old := disk.Content(newestOn(disk))
		s = openOurs(t, disk)
		write(t, s, promise(5, 1))
		require.NoError(t, s.Close())
		disk.Replace(newestOn(disk), old)
		o := options(disk)
		o.Owner = ours
		_, err := repair.Open(disk, dir, o)
		require.ErrorContains(t, err, "before what was known to be durable", "it was made anew")
	})
	t.Run("the begin mark", func(t *testing.T) {
		disk := faultdisk.New(7)
		owned(t, disk, dir, ours)
		disk.Unreadable(namesIn(disk, dir, ".begin")[0], 0, 512)
		s := openOurs(t, disk)
		require.NoError(t, trim(s, exchangeEntries-1))
		require.NoError(t, s.Close())
		require.Len(t, namesIn(disk, dir, ".begin"), 1)
	})
}

func openOurs(t *testing.T, disk *faultdisk.Disk) *store.Store {
	t.Helper()
	o := options(disk)
	o.Owner = ours
	s, err := repair.Open(disk, dir, o)
	require.NoError(t, err)
	return s
}

// The log begins with a segment whose entries were all truncated: A holds
// entries up to 99, B those from 100 on, C those from 90 on, which takes the place
// of B; then everything below 95 is recycled, and A with it.
func TestASurveyOfALogWhoseFirstSegmentIsHidden(t *testing.T) {
	disk := faultdisk.New(7)
	o := options(disk)
	o.Owner = ours
	s, err := store.Create(disk, dir, o, bootstrap())
	require.NoError(t, err)
	begun := uint64(0)
	i := uint64(2)
	for ; begun == 0; i++ {
		for _, first := range write(t, s, synced(ownedEntry(i, ours))).Rolled {
			begun = first
		}
	}
	from := begun - 4
	term2 := ownedEntry(from, ours)
	term2.Term = 2
	saveStarts(t, s, write(t, s, synced(term2)))
	require.NoError(t, trim(s, from+1))
	require.Len(t, segmentsOn(disk), 2)
	require.Equal(t, from, s.FirstIndex())
	require.NoError(t, s.Close())

	report, err := repair.Survey(t.Context(), disk, dir, store.Options{Owner: ours}, nil)
	require.NoError(t, err)
	require.Empty(t, report.Damage)
	require.Equal(t, from, report.First)
	require.Equal(t, from, report.Last)
	require.Equal(t, firstOf(from), report.Start)

	disk.FlipBit(segmentsOn(disk)[0], 5000) // in the hidden one
	m, err := repair.Begin(t.Context(), disk, dir, o)
	require.NoError(t, err)
	require.Empty(t, m.Wants(1))
	_, err = m.Finish()
	require.NoError(t, err)
	s = openOurs(t, disk)
	requireEntries(t, s, []segment.Entry{term2})
	term, err := s.Term(from - 1)
	require.NoError(t, err)
	require.Equal(t, uint64(1), term)
	require.NoError(t, s.Close())
}

// lookingFS calls look before each removal of a file.
type lookingFS struct {
	vfs.FS
	look func(removed string)
}

func (l *lookingFS) Remove(name string) error {
	if l.look != nil && !strings.HasSuffix(name, ".tmp") {
		l.look(name)
	}
	return l.FS.Remove(name)
}

// A reader of a log that is being reset gets ErrTrimmed, or
// gets it; it never finds a file missing.
func TestReadersOfALogThatIsResetFindNoFileMissing(t *testing.T) {
	disk := faultdisk.New(7)
	o := options(disk)
	o.Owner = ours
	slow := &lookingFS{FS: disk}
	s, err := store.Create(slow, dir, o, bootstrap())
	require.NoError(t, err)
	for i := uint64(2); i < exchangeEntries; i++ {
		saveStarts(t, s, write(t, s, synced(ownedEntry(i, ours))))
	}
	require.NoError(t, s.Close())
	s, err = repair.Open(slow, dir, o)
	require.NoError(t, err)
	cursor, err := s.NewCursor(0)
	require.NoError(t, err)
	looks := 0
	slow.look = func(removed string) {
		looks++
		for i := uint64(2); i < exchangeEntries; i += 10 {
			_, err := s.Entries(i, i+1, 1)
			require.True(t, err == nil || trimmed(err), "%v while %s is removed", err, removed)
			_, err = s.Term(i)
			require.True(t, err == nil || trimmed(err), "%v while %s is removed", err, removed)
		}
		for {
			frames, err := cursor.Next(1<<40, 1<<20)
			require.True(t, err == nil || trimmed(err), "%v while %s is removed", err, removed)
			if len(frames) == 0 {
				break
			}
		}
		_, _, _, err := s.LoadSnapshot()
		require.NoError(t, err)
		_, err = s.NewCursor(0)
		require.True(t, trimmed(err), "%v while %s is removed", err, removed)
	}
	require.NoError(t, s.Reset(100, 5, 80, segment.HardState{Term: 5, Commit: 100}, []byte("state at 100")))
	require.Greater(t, looks, 4)
	slow.look = nil
	cursor.Close()
	require.Equal(t, uint64(101), s.FirstIndex())
	require.NoError(t, s.Close())
}
