package segment_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/test/disk/faultdisk"
)

func snapshotFile(index uint64) string { return fmt.Sprintf("%s/%020d.snap", dir, index) }

// manySegments is a log of entries of 1000 bytes with a snapshot for the start
// of each of its segments.
func manySegments(t *testing.T, disk *faultdisk.Disk) (s *store.Store, starts []uint64) {
	t.Helper()
	s = create(t, disk)
	result := write(t, s, synced(entries(2, 80, 1, 1000)...))
	saveStarts(t, s, result)
	require.Greater(t, len(result.Rolled), 4)
	return s, result.Rolled
}

func requireBase(t *testing.T, s segment.Log) {
	t.Helper()
	index, _, data, err := s.LoadBase()
	require.NoError(t, err, "the log begins at entry %d", s.FirstIndex())
	require.Equal(t, s.FirstIndex()-1, index)
	require.Equal(t, fmt.Sprint("state at ", index), string(data))
}

func TestAnInterruptedTrimLeavesASnapshotForTheStartOfTheLog(t *testing.T) {
	for _, remains := range []faultdisk.Remains{faultdisk.Nothing, faultdisk.Everything, faultdisk.Some} {
		t.Run(remains.String(), func(t *testing.T) {
			for seed := range uint64(8) {
				interruptedTrim(t, seed, remains)
			}
		})
	}
}

func interruptedTrim(t *testing.T, seed uint64, remains faultdisk.Remains) {
	t.Helper()
	for n := 1; ; n++ {
		disk := faultdisk.New(seed<<32 + uint64(n))
		s, starts := manySegments(t, disk)
		disk.StopAt(n)
		err := trim(s, starts[3])
		disk.PowerCut(remains)
		s = open(t, disk)
		requireBase(t, s)
		for _, name := range filesOn(disk, ".snap") {
			require.GreaterOrEqual(t, name, snapshotFile(s.FirstIndex()-1), "it serves nobody")
		}
		require.NoError(t, s.Close())
		if err == nil {
			require.Greater(t, n, 5)
			return
		}
	}
}

// A segment with readers leaves the log, but its file stays, and a crash brings
// it back.
func TestASegmentThatComesBackIsNoPartOfTheLog(t *testing.T) {
	disk := faultdisk.New(1)
	s, starts := manySegments(t, disk)
	first, err := s.NewCursor(0)
	require.NoError(t, err)
	second, err := s.NewCursor(firstOf(starts[0] + 1))
	require.NoError(t, err)
	require.NoError(t, trim(s, starts[1]))
	require.Equal(t, starts[1], s.FirstIndex())
	requireBase(t, s)

	first.Close()
	require.NoError(t, s.SaveSnapshot(79, 1, nil))
	require.NotContains(t, disk.Names(), snapshotFile(1))
	before := len(segmentsOn(disk))
	disk.Restart()
	s = open(t, disk)
	require.Equal(t, starts[1], s.FirstIndex())
	require.Len(t, segmentsOn(disk), before-1, "the next start removes it")
	requireBase(t, s)
	second.Close()
	require.NoError(t, s.Close())
}

func TestASegmentThatCannotBeRemovedIsRemovedByTheNextStart(t *testing.T) {
	disk := faultdisk.New(1)
	s, starts := manySegments(t, disk)
	require.NoError(t, s.Close())
	disk.Restart()
	s = open(t, disk) // idle: it makes no spares
	disk.FailNth(faultdisk.Remove, 2, errDisk)
	require.ErrorIs(t, trim(s, starts[3]), errDisk)
	requireBase(t, s)
	disk.Restart()
	s = open(t, disk)
	require.Equal(t, starts[3], s.FirstIndex())
	require.Len(t, segmentsOn(disk), len(starts)-3)
	requireBase(t, s)
	require.NoError(t, s.Close())
}

func TestATrimStopsWhereASnapshotCanBeRead(t *testing.T) {
	disk := faultdisk.New(1)
	s, starts := manySegments(t, disk)
	disk.FlipBit(snapshotFile(starts[3]-1), 50)
	require.NoError(t, trim(s, starts[3]))
	require.Equal(t, starts[2], s.FirstIndex())
	requireBase(t, s)
	require.Contains(t, disk.Names(), snapshotFile(starts[3]-1), "it stays, for people to look at")
	require.NoError(t, s.Close())
}

func TestATrimStopsWhereASnapshotIsThere(t *testing.T) {
	disk := faultdisk.New(1)
	s, starts := manySegments(t, disk)
	require.NoError(t, disk.Remove(snapshotFile(starts[3]-1)))
	require.NoError(t, trim(s, starts[3]))
	require.Equal(t, starts[2], s.FirstIndex())
	requireBase(t, s)
	require.NoError(t, s.Close())
}

func TestADamagedBaseIsNamed(t *testing.T) {
	disk := faultdisk.New(1)
	s, starts := manySegments(t, disk)
	require.NoError(t, trim(s, starts[2]))
	disk.FlipBit(snapshotFile(starts[2]-1), 50)
	_, _, _, err := s.LoadBase()
	var corrupt *segment.CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, snapshotFile(starts[2]-1), corrupt.File)

	// The log itself lives on newer ones, and gets over it with the next trim.
	index, _, _, err := s.LoadSnapshot()
	require.NoError(t, err)
	require.Equal(t, starts[len(starts)-1]-1, index)
	require.NoError(t, trim(s, starts[3]))
	requireBase(t, s)
	require.NoError(t, s.Close())
}

func TestASnapshotFromWhichTheLogDoesNotGoOnIsNotLoaded(t *testing.T) {
	disk := faultdisk.New(1)
	s, starts := manySegments(t, disk)
	last := starts[len(starts)-1]
	require.NoError(t, trim(s, last))
	require.Len(t, filesOn(disk, ".snap"), 2)
	disk.FlipBit(snapshotFile(last-1), 50)
	_, _, _, err := s.LoadSnapshot()
	require.ErrorIs(t, err, segment.ErrNoSnapshot)
	require.NoError(t, s.Close())
}

func TestASnapshotBehindTheEndShowsThatEntriesAreMissing(t *testing.T) {
	disk := faultdisk.New(1)
	s, _ := manySegments(t, disk)
	require.NoError(t, s.Close())
	names := segmentsOn(disk)
	for _, name := range names[len(names)-2:] {
		require.NoError(t, disk.Remove(name))
	}
	require.NoError(t, disk.Remove(watermarkFile)) // it would have reported that first
	disk.Restart()
	_, err := repair.Open(disk, dir, options(disk))
	var corrupt *segment.CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Contains(t, disk.Names(), corrupt.File)
	require.True(t, corrupt.Renew)
}

func TestAResetLeavesNoOtherSnapshot(t *testing.T) {
	disk := faultdisk.New(1)
	s, _ := manySegments(t, disk)
	for _, index := range []uint64{500, 60} {
		require.NoError(t, s.Reset(index, 7, record.Offset(4000), segment.HardState{Term: 7, Commit: index}, fmt.Append(nil, "state at ", index)))
		require.Equal(t, []string{snapshotFile(index)}, filesOn(disk, ".snap"))
		requireBase(t, s)
		found, _, _, err := s.LoadSnapshot()
		require.NoError(t, err)
		require.Equal(t, index, found)
	}
	require.NoError(t, s.Close())
	s = open(t, disk)
	requireBase(t, s)
	require.NoError(t, s.Close())
}

// Commands have hardly any payload, and occupy memory all the same.
func TestALogInMemoryOfSmallEntriesIsTrimmedInSmallSteps(t *testing.T) {
	m := memory.New(bootstrap())
	const last = 200_000
	for i := uint64(2); i <= last; i++ {
		saveStarts(t, m, write(t, m, synced(segment.Entry{Index: i, Term: 1})))
	}
	require.NoError(t, trim(m, last))
	require.Less(t, m.Bytes(), int64(5<<20))
	requireBase(t, m)
	require.NoError(t, m.Close())
}

// A replica that encodes snapshots in another goroutine may save one after the log was reset
// beyond it.
func TestALateSnapshotDoesNotHideTheBase(t *testing.T) {
	disk := faultdisk.New(1)
	for kind, log := range map[string]segment.Log{"disk": create(t, disk), "memory": memory.New(bootstrap())} {
		t.Run(kind, func(t *testing.T) {
			write(t, log, synced(entries(2, 20, 1, 10)...))
			require.NoError(t, log.Reset(500, 7, 4000, segment.HardState{Term: 7, Commit: 500}, []byte("new state")))
			require.NoError(t, log.SaveSnapshot(15, 1, []byte("late")))
			index, _, data, err := log.LoadBase()
			require.NoError(t, err)
			require.Equal(t, uint64(500), index)
			require.Equal(t, []byte("new state"), data)
			require.NoError(t, log.Close())
		})
	}
	require.Equal(t, []string{snapshotFile(500)}, filesOn(disk, ".snap"))
}
