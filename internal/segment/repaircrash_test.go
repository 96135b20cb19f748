package segment_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/test/corpus"
	"strandline.dev/test/disk/faultdisk"
)

// damageMany damages a segment in the middle, the oldest and the newest.
func damageMany(t *testing.T, disk *faultdisk.Disk) {
	t.Helper()
	segments := segmentsOn(disk)
	disk.FlipBit(segments[0], 50)
	require.NoError(t, disk.Remove(segments[2]))
	require.NoError(t, disk.SyncDir(dir))
	newest := segments[len(segments)-1]
	disk.FlipBit(newest, frameIn(t, disk, newest, "entry", 0).Position+20)
	disk.FlipBit(filesOn(disk, ".snap")[1], 50)
}

func TestAPowerCutAtEveryOperationOfRepair(t *testing.T) {
	for _, remains := range []faultdisk.Remains{faultdisk.Nothing, faultdisk.Everything, faultdisk.Some} {
		t.Run(remains.String(), func(t *testing.T) {
			for n := 1; ; n++ {
				c := newCopies(t, 3, 40)
				disk := c.disks[0]
				damageMany(t, disk)
				disk.StopAt(n)
				_, err := repairFiles(disk, c.giver(t), c.commit, 4000)
				finished := err == nil
				if !finished {
					require.ErrorIs(t, err, faultdisk.ErrStopped)
				}
				disk.PowerCut(remains)

				// Whoever comes next, brings it to an end.
				s, err := repair.Open(disk, dir, options(disk))
				var corrupt *segment.CorruptError
				switch {
				case err == nil:
					require.NoError(t, s.Close())
				case errors.As(err, &corrupt):
					require.False(t, corrupt.Renew, err)
				default:
					require.NoError(t, err, "operation %d", n)
				}
				_, err = repairFiles(disk, c.giver(t), c.commit, 4000)
				require.NoError(t, err, "operation %d", n)
				c.requireWhole(t)
				if finished {
					require.Greater(t, n, 20)
					return
				}
			}
		})
	}
}

// Each of two damaged copies gives what the other lacks.
func TestTwoDamagedCopiesRepairEachOther(t *testing.T) {
	for seed := range uint64(5) {
		c := newCopies(t, seed, 80)
		for i, disk := range c.disks {
			for k, name := range segmentsOn(disk)[:4] {
				if k%2 == i {
					disk.FlipBit(name, frameIn(t, disk, name, "entry", 2).Position+20)
				}
			}
		}
		a, err := repair.Begin(context.Background(), c.disks[0], dir, options(c.disks[0]))
		require.NoError(t, err)
		b, err := repair.Begin(context.Background(), c.disks[1], dir, options(c.disks[1]))
		require.NoError(t, err)
		for _, pair := range [][2]*repair.Repairer{{a, b}, {b, a}} {
			for range 100 {
				for _, w := range pair[0].Wants(100) {
					frames, committed, err := pair[1].Entries(w.First, w.Last+2, 1<<20)
					if !errors.Is(err, segment.ErrUnavailable) && !errors.Is(err, segment.ErrTrimmed) {
						require.NoError(t, err)
						_, err = pair[0].Give(frames, committed)
						require.NoError(t, err)
					}
				}
			}
		}
		if len(a.Wants(1)) > 0 { // the same record is damaged on both
			require.NoError(t, errors.Join(a.Close(), b.Close()))
			continue
		}
		_, err = a.Finish()
		require.NoError(t, err)
		require.NoError(t, b.Close())
		c.requireWhole(t)
	}
}

func TestWhatAllOthersHaveTrimmedIsGivenUp(t *testing.T) {
	c := newCopies(t, 3, 80)
	disk := c.disks[0]
	first := segmentsOn(disk)[0]
	disk.FlipBit(first, frameIn(t, disk, first, "entry", 2).Position+20)
	giver := c.giver(t)
	require.NoError(t, trim(giver, c.commit))
	below := giver.FirstIndex()
	term, err := giver.Term(below - 1)
	require.NoError(t, err)

	m, err := repair.Begin(context.Background(), disk, dir, options(disk))
	require.NoError(t, err)
	require.NotEmpty(t, m.Wants(1))
	require.True(t, m.Skip(below, term))
	require.Empty(t, m.Wants(1))
	_, err = m.Finish()
	require.NoError(t, err)
	require.Empty(t, survey(t, disk).Damage)
	s := open(t, disk)
	require.Equal(t, below, s.FirstIndex())
	found, err := s.Term(below - 1)
	require.NoError(t, err)
	require.Equal(t, term, found)
	requireEntries(t, s, c.want[below-2:])
	require.Equal(t, c.hard, s.HardState())
	require.NoError(t, s.Close())
}

func TestOnlyWhatIsProvenIsTaken(t *testing.T) {
	c := newCopies(t, 3, 80)
	disk := c.disks[0]
	name := segmentsOn(disk)[2]
	lost := frameIn(t, disk, name, "entry", 2)
	disk.FlipBit(name, lost.Position+20)
	m, err := repair.Begin(context.Background(), disk, dir, options(disk))
	require.NoError(t, err)
	wants := m.Wants(10)
	require.NotEmpty(t, wants)
	i := wants[0].First
	right := c.want[i-2]
	taken := func(f segment.Entry, committed uint64) int {
		n, err := m.Give([]segment.Entry{f}, committed)
		require.NoError(t, err)
		return n
	}
	stale := entry(i, 1000, 100)
	require.Zero(t, taken(stale, i-1), "not committed, of another term")
	bad := right
	bad.Payload = append([]byte{}, right.Payload...)
	bad.Payload = append(bad.Payload, 1)
	require.Zero(t, taken(bad, i), "it does not match its checksum")
	early := right
	early.First--
	require.Zero(t, taken(early, 0), "it begins within the entry before")
	require.Zero(t, taken(entry(i+1000, 1, 10), i+1000), "nobody wants it")
	_, err = m.Finish()
	require.ErrorContains(t, err, "still missing")
	require.Equal(t, 1, taken(right, i), "it is committed")
	require.Zero(t, taken(right, i), "it is here now")
	require.NoError(t, m.Close())
	require.Empty(t, filesOn(disk, ".tmp"))
	_, err = m.Give([]segment.Entry{right}, i)
	require.ErrorIs(t, err, segment.ErrClosed)
}

// FuzzGive offers frames of a peer to a log with damage of each kind. It may
// take or refuse them; what is served afterwards has to be what the frames
// said, at offsets that do not go back.
func FuzzGive(f *testing.F) {
	corpus.Add(f)
	f.Add(uint64(4), uint64(1), int64(2), uint32(1), uint64(100), []byte("payload"), true)
	f.Add(uint64(20), uint64(1), int64(-1), uint32(1<<31), uint64(0), []byte{}, false)
	f.Fuzz(func(t *testing.T, index, term uint64, first int64, count uint32, committed uint64, payload []byte, honest bool) {
		disk := faultdisk.New(1)
		s, err := store.Create(disk, dir, options(disk), bootstrap())
		require.NoError(t, err)
		hard := segment.HardState{Term: 1, Commit: 3}
		for i := uint64(2); i < 40; i += 2 {
			ws := synced(entries(i, i+2, 1, 900)...)
			ws[0].HardState = &hard
			write(t, s, ws)
			hard.Vote++
		}
		require.NoError(t, s.Close())
		disk.Restart()
		flipHeader(t, disk, "entry", 4)
		flipPayload(t, disk, "entry", 20)
		require.NoError(t, disk.Remove(segmentsOn(disk)[1]))
		m, err := repair.Begin(context.Background(), disk, dir, options(disk))
		require.NoError(t, err)
		defer m.Close()
		given := segment.Entry{Index: index, Term: term, First: record.Offset(first), Count: count, CRC: record.Checksum(payload), Payload: payload}
		if !honest {
			given.CRC++
		}
		n, err := m.Give([]segment.Entry{given}, committed)
		if err != nil {
			require.ErrorIs(t, err, repair.ErrNotRepairable)
			return
		}
		if n == 0 {
			return
		}
		require.True(t, honest)
		frames, _, err := m.Entries(index, index+1, 1)
		require.NoError(t, err)
		require.True(t, sameFrame(given, frames[0]))
		for len(m.Wants(1)) > 0 {
			w := m.Wants(1)[0]
			if n, err := m.Give(entries(w.First, w.Last+1, 1, 900), w.Last); n == 0 || err != nil {
				return // what the peer gave does not fit the others
			}
		}
		_, err = m.Finish()
		require.NoError(t, err)
		s = open(t, disk)
		frames, err = s.Entries(index, index+1, 1)
		require.NoError(t, err)
		require.True(t, sameFrame(given, frames[0]))
		require.NoError(t, s.Close())
	})
}
