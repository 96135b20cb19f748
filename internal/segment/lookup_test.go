package segment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/test/disk/faultdisk"
)

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
