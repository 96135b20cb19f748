package segment_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/test/disk/faultdisk"
)

// abandoned is the log of a replica that was away while others went another way:
// entries up to 7, from 5 on of term 2 and not committed.
func abandoned(t *testing.T) *faultdisk.Disk {
	t.Helper()
	disk := faultdisk.New(1)
	s := create(t, disk)
	ws := synced(append(entries(2, 5, 1, 100), entries(5, 8, 2, 100)...)...)
	ws[0].HardState = &segment.HardState{Term: 2, Commit: 4}
	write(t, s, ws)
	write(t, s, []segment.Write{{HardState: &segment.HardState{Term: 3, Commit: 4}, MustSync: true}})
	require.NoError(t, s.Close())
	disk.Restart()
	return disk
}

func TestACommittedEntryIsNotPutBehindOnesThatLost(t *testing.T) {
	others := append(entries(2, 5, 1, 100), entries(5, 9, 3, 100)...)
	for i := uint64(5); i < 8; i++ {
		for _, flip := range []func(*testing.T, *faultdisk.Disk, string, uint64){flipPayload, flipHeader} {
			disk := abandoned(t)
			flip(t, disk, "entry", i)
			m, err := repair.Begin(context.Background(), disk, dir, options(disk))
			require.NoError(t, err)
			w := m.Wants(1)[0]
			_, err = m.Give(others[w.First-2:w.To-1], 8)
			if i == 7 && !w.Exact {
				// Nothing shows what was the last one, nor whether those in
				// front of it were still there: all of them are replaced.
				require.NoError(t, err)
				_, err = m.Finish()
				require.NoError(t, err)
				s := open(t, disk)
				requireEntries(t, s, others[:6])
				require.NoError(t, s.Close())
			} else {
				require.ErrorIs(t, err, repair.ErrNotRepairable)
				require.NoError(t, m.Close())
			}
		}
	}
}

func TestAnEntryThatLostIsTakenFromOneWhoStillHasIt(t *testing.T) {
	disk := abandoned(t)
	flipPayload(t, disk, "entry", 7)
	m, err := repair.Begin(context.Background(), disk, dir, options(disk))
	require.NoError(t, err)
	n, err := m.Give(entries(7, 8, 2, 100), 4)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = m.Finish()
	require.NoError(t, err)
	s := open(t, disk)
	requireEntries(t, s, append(entries(2, 5, 1, 100), entries(5, 8, 2, 100)...))
	require.NoError(t, s.Close())
}
