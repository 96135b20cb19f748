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

// intruded is a disk on which something happens between the moment a segment
// is opened and the moment the caller continues: what other goroutines do while
// an open takes long. It happens once.
type intruded struct {
	*faultdisk.Disk
	intrude func()
}

func (d *intruded) Open(name string) (vfs.File, error) {
	file, err := d.Disk.Open(name)
	if intrude := d.intrude; intrude != nil && strings.HasSuffix(name, ".seg") {
		d.intrude = nil
		intrude()
	}
	return file, err
}

func TestTheFillerLetsGoOfASegmentThatWasTrimmedMeanwhile(t *testing.T) {
	disk := &intruded{Disk: faultdisk.New(1)}
	s, err := store.Create(disk, dir, options(disk.Disk), bootstrap())
	require.NoError(t, err)
	var want []segment.Entry
	add := func(size int) segment.Result {
		want = append(want, entry(uint64(len(want))+2, 1, size))
		return write(t, s, synced(want[len(want)-1]))
	}
	for range 8 {
		add(1000)
	}
	disk.intrude = func() {
		// The segment that is being filled is rolled and recycled, and its
		// file begins a new one, which holds a large entry.
		var result segment.Result
		for len(result.Rolled) == 0 {
			result = add(1000)
		}
		saveStarts(t, s, result)
		require.NoError(t, trim(s, result.Rolled[0]))
		require.NotEmpty(t, filesOn(disk.Disk, ".spare"))
		require.NotEmpty(t, add(40_000).Rolled)
		require.Empty(t, filesOn(disk.Disk, ".spare"), "the file is in use again")
	}
	_, err = s.Prepare()
	require.NoError(t, err)
	require.Nil(t, disk.intrude, "the active segment was opened to be filled")
	requireEntries(t, s, want[s.FirstIndex()-2:])
	require.NoError(t, s.Close())
}

// reopened is a log of many segments whose headers are not in memory, with a
// snapshot for the start of each. Its entries are [2, last].
func reopened(t *testing.T, disk *intruded) (s *store.Store, starts []uint64) {
	t.Helper()
	s, err := store.Create(disk, dir, options(disk.Disk), bootstrap())
	require.NoError(t, err)
	for i := uint64(2); len(starts) < 15; i++ {
		result := write(t, s, synced(entry(i, 1, 1000)))
		saveStarts(t, s, result)
		starts = append(starts, result.Rolled...)
	}
	require.NoError(t, s.Close())
	s, err = repair.Open(disk, dir, options(disk.Disk))
	require.NoError(t, err)
	return s, starts
}

func TestACursorBeginsBesideATrimBelowIt(t *testing.T) {
	for name, at := range map[string]uint64{"inside the first segment left": 3, "at its first entry": 0} {
		t.Run(name, func(t *testing.T) {
			disk := &intruded{Disk: faultdisk.New(1)}
			s, starts := reopened(t, disk)
			disk.intrude = func() { require.NoError(t, trim(s, starts[12])) }
			from := starts[12] + at
			cursor, err := s.NewCursor(firstOf(from))
			require.NoError(t, err, "it is not trimmed, the log starts at %d", s.StartOffset())
			require.Nil(t, disk.intrude)
			require.Equal(t, starts[12], s.FirstIndex())
			frames, err := cursor.Next(1<<40, 1)
			require.NoError(t, err)
			require.True(t, sameFrame(entry(from, 1, 1000), frames[0]))
			cursor.Close()

			_, err = s.NewCursor(firstOf(starts[12]) - 1)
			require.True(t, trimmed(err), err)
			require.NoError(t, s.Close())
		})
	}
}

func TestATrimBesideAWriteThatTruncatesWhatWouldBeTheFirstSegment(t *testing.T) {
	disk := &intruded{Disk: faultdisk.New(1)}
	s, starts := reopened(t, disk)
	first := starts[12]
	disk.intrude = func() { write(t, s, synced(entry(first, 2, 100))) }
	require.NoError(t, trim(s, first))
	require.Nil(t, disk.intrude)
	require.Equal(t, first, s.FirstIndex())
	requireEntries(t, s, []segment.Entry{entry(first, 2, 100)})
	require.NoError(t, s.Close())
}
