package segment_test

import (
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/faultdisk"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestRestartCostDoesNotGrowWithTheLog(t *testing.T) {
	cost := func(segments int) (opens, reads int) {
		disk := faultdisk.New(1)
		s := create(t, disk)
		for i := uint64(2); len(segmentsOn(disk)) < segments; i++ {
			write(t, s, synced(entry(i, 1, 3000)))
		}
		require.NoError(t, s.Close())
		opens, reads = disk.Calls(faultdisk.Open), disk.Calls(faultdisk.Read)
		s = open(t, disk)
		opens, reads = disk.Calls(faultdisk.Open)-opens, disk.Calls(faultdisk.Read)-reads
		require.NoError(t, s.Close())
		return opens, reads
	}
	opens, reads := cost(3)
	moreOpens, moreReads := cost(60)
	require.Equal(t, opens, moreOpens)
	require.Equal(t, reads, moreReads)
}

func TestAnUntouchedLogOccupiesLessThanAMiB(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Create(vfs.OS(), filepath.Join(dir, "log"), store.Options{}, bootstrap())
	require.NoError(t, err)
	require.NoError(t, s.Mark())
	for more := true; more; {
		more, err = s.Prepare()
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	files, err := vfs.OS().List(filepath.Join(dir, "log"))
	require.NoError(t, err)
	blocks := int64(0)
	for _, f := range files {
		var stat unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(dir, "log", f.Name), &stat))
		blocks += stat.Blocks
	}
	require.Less(t, blocks*512, int64(1<<20))
}

func TestABusyLogFindsItsNextSegmentFilled(t *testing.T) {
	disk := faultdisk.New(1)
	o := options(disk)
	o.SegmentBytes = 4 << 20
	s, err := store.Create(disk, dir, o, bootstrap())
	require.NoError(t, err)
	i := uint64(2)
	for len(segmentsOn(disk)) < 3 {
		saveStarts(t, s, write(t, s, synced(entry(i, 1, 20_000))))
		i++
		for more := true; more; {
			more, err = s.Prepare()
			require.NoError(t, err)
		}
	}
	names := segmentsOn(disk)
	require.GreaterOrEqual(t, len(disk.Content(names[2])), 3<<20, "it was filled before it was needed, but for a step")

	// Recycling a busy log keeps files instead, never more than two.
	require.NoError(t, trim(s, i))
	require.Len(t, filesOn(disk, ".spare"), 2)
	require.Len(t, segmentsOn(disk), 1)
	require.NoError(t, s.Close())
}

func TestAFailedFillOfTheActiveSegmentStopsTheLog(t *testing.T) {
	disk := faultdisk.New(1)
	o := options(disk)
	o.SegmentBytes = 4 << 20
	s, err := store.Create(disk, dir, o, bootstrap())
	require.NoError(t, err)
	for i := uint64(2); i < 20; i++ {
		write(t, s, synced(entry(i, 1, 20_000)))
	}
	disk.FailNth(faultdisk.Datasync, 1, syscall.EIO)
	_, err = s.Prepare()
	require.ErrorIs(t, err, syscall.EIO)
	_, err = s.Write(synced(entry(20, 1, 10)))
	require.ErrorIs(t, err, syscall.EIO, "the sync that failed may have been of the log's own bytes")
}

func TestRecyclingBesideReadersAndTheWriter(t *testing.T) {
	s, err := store.Create(vfs.OS(), t.TempDir()+"/log", store.Options{SegmentBytes: 64 << 10}, bootstrap())
	require.NoError(t, err)
	const last = 3000
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for s.LastIndex() < last {
				cursor, err := s.NewCursor(s.StartOffset())
				if err != nil {
					continue // trimmed meanwhile
				}
				for {
					frames, err := cursor.Next(1<<40, 10_000)
					if err != nil {
						if !trimmed(err) {
							t.Error(err)
						}
						break
					}
					if len(frames) == 0 {
						break
					}
					for _, f := range frames {
						if record.Checksum(f.Payload) != f.CRC {
							t.Error("a frame of a recycled file")
						}
					}
				}
				cursor.Close()
				if _, err := s.OffsetAtTime(1500); err != nil {
					t.Error(err)
				}
			}
		})
	}
	others.Go(func() {
		for s.LastIndex() < last {
			at := s.LastIndex()
			term, err := s.Term(at)
			if err == nil {
				err = s.SaveSnapshot(at, term, nil)
			}
			if err == nil {
				err = trim(s, at)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	for i := uint64(2); i <= last; i += 20 {
		write(t, s, synced(entries(i, i+20, 1, 500)...))
	}
	others.Wait()
	require.NoError(t, s.Close())
}

func TestASyncTakesAtLeastItsDelay(t *testing.T) {
	disk := faultdisk.New(1)
	o := options(disk)
	o.SyncDelay = 3 * time.Millisecond
	s, err := store.Create(disk, dir, o, bootstrap())
	require.NoError(t, err)
	begin := time.Now()
	write(t, s, synced(entry(2, 1, 10)))
	require.GreaterOrEqual(t, time.Since(begin), o.SyncDelay)
	require.NoError(t, s.Close())
}

func TestOneWriteIsOneCallAndAtMostOneSync(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	calls := func() (int, int) { return disk.Calls(faultdisk.Write), disk.Calls(faultdisk.Datasync) }
	writes, syncs := calls()
	many := []segment.Write{
		{Entries: entries(2, 8, 1, 100), MustSync: true, HardState: &segment.HardState{Term: 1, Commit: 2}},
		{Entries: entries(8, 12, 1, 300), MustSync: true, HardState: &segment.HardState{Term: 1, Commit: 3}},
	}
	write(t, s, many)
	moreWrites, moreSyncs := calls()
	require.Equal(t, 1, moreWrites-writes)
	require.Equal(t, 1, moreSyncs-syncs)
	write(t, s, []segment.Write{{HardState: &segment.HardState{Term: 1, Commit: 9}}})
	_, last := calls()
	require.Equal(t, moreSyncs, last, "a commit index alone waits for nothing")
	require.NoError(t, s.Close())
}

func TestAnotherProcessIsKeptOut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	held, err := vfs.OS().Lock(name)
	require.NoError(t, err)
	_, err = vfs.OS().Lock(name)
	require.ErrorContains(t, err, "another process")
	require.NoError(t, held.Close())
	again, err := vfs.OS().Lock(name)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestAReaderGoesOnBesideAReset(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	write(t, s, synced(entries(2, 60, 1, 900)...))
	cursor, err := s.NewCursor(0)
	require.NoError(t, err)
	require.NoError(t, s.Reset(500, 1, 4000, segment.HardState{Term: 1, Commit: 500}, nil))
	for err == nil {
		_, err = cursor.Next(1<<40, 1000)
	}
	require.True(t, trimmed(err), err)
	cursor.Close()
	require.NoError(t, s.Close())
}

func TestWriteFileDurablyLeavesTheOldOrTheNew(t *testing.T) {
	for n := 1; ; n++ {
		disk := faultdisk.New(uint64(n))
		require.NoError(t, disk.MkdirAll("data"))
		require.NoError(t, vfs.WriteFileDurably(disk, "data/file", []byte("old")))
		disk.StopAt(n)
		err := vfs.WriteFileDurably(disk, "data/file", []byte("new"))
		disk.PowerCut(faultdisk.Some)
		content := string(disk.Content("data/file"))
		if err == nil {
			require.Equal(t, "new", content)
			return
		}
		require.Contains(t, []string{"old", "new"}, content)
	}
}

// A long trim is done in small steps, so that the directory and the journal of
// the file system are free for others between them.
func TestRecyclingTakesSmallSteps(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	for i := uint64(2); i < 200; i++ {
		saveStarts(t, s, write(t, s, synced(entry(i, 1, 15<<10))))
	}
	before := len(segmentsOn(disk))
	require.Greater(t, before, 150)
	steps := 0
	for more := true; more; steps++ {
		had := len(segmentsOn(disk))
		var err error
		more, err = s.Trim(199)
		require.NoError(t, err)
		require.LessOrEqual(t, had-len(segmentsOn(disk)), 16)
	}
	require.Greater(t, steps, 8)
	require.Less(t, len(segmentsOn(disk)), 4)
	require.NoError(t, s.Close())
}

// The sync of a directory commits the journal with all that others have put
// there, so a write that rolls leaves it to the filler.
func TestARollSyncsNoDirectory(t *testing.T) {
	disk := faultdisk.New(1)
	s := create(t, disk)
	rolled := 0
	for i := uint64(2); rolled < 3; i++ {
		before := disk.Calls(faultdisk.SyncDir)
		result := write(t, s, synced(entry(i, 1, 1000)))
		require.Equal(t, before, disk.Calls(faultdisk.SyncDir))
		rolled += len(result.Rolled)
		for more := true; more; {
			var err error
			more, err = s.Prepare()
			require.NoError(t, err)
		}
		if len(result.Rolled) > 0 {
			require.Greater(t, disk.Calls(faultdisk.SyncDir), before, "the filler does")
		}
	}
	require.NoError(t, s.Close())
}

// A frame of another kind behind a large entry lies further behind the last
// point of the index than any entry may.
func TestALookupPassesOverOtherFramesBehindALargeEntry(t *testing.T) {
	disk := faultdisk.New(1)
	o := options(disk)
	o.SegmentBytes = 8 << 20
	s, err := store.Create(disk, dir, o, bootstrap())
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	last := entry(9, 1, 100)
	for i := uint64(2); i < 9; i++ {
		large := entry(i, 1, 200<<10)
		hard := segment.HardState{Term: 1, Commit: i}
		write(t, s, []segment.Write{{Entries: []segment.Entry{large}, HardState: &hard, MustSync: true}})
		write(t, s, []segment.Write{{HardState: &hard, MustSync: true}})
		require.NoError(t, s.Mark())
	}
	write(t, s, synced(last))
	for _, f := range append(entries(2, 9, 1, 200<<10), last) {
		o, err := s.OffsetAtTime(f.Time)
		require.NoError(t, err)
		require.Equal(t, f.First, o)
	}
	end, err := s.OffsetAtTime(last.Time + 1)
	require.NoError(t, err)
	require.Equal(t, last.First+1, end, "the end, behind everything")
}
