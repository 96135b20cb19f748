package segment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/disk/faultdisk"
)

// A repaired segment knows its own end. A copy of it from when it was the newest ends
// before the next one begins, and the entries between are damage, not an empty answer.
func TestARepairedSegmentThatEndsTooEarlyIsDamaged(t *testing.T) {
	c := newCopies(t, 3, 60)
	disk := c.disks[0]
	name := newestOn(disk)
	whole := disk.Content(name)
	disk.FlipBit(name, frameIn(t, disk, name, "entry", 0).Position+80)
	_, err := repairFiles(disk, c.giver(t), c.commit, 4000)
	require.NoError(t, err)
	repaired := disk.Content(name)
	disk.Restart()
	require.NoError(t, disk.Remove(watermarkFile)) // the log continues in the old file
	disk.Replace(name, whole)

	s := open(t, disk)
	last := s.LastIndex()
	for newestOn(disk) == name || s.LastIndex() < last+4 {
		saveStarts(t, s, write(t, s, synced(entry(s.LastIndex()+1, c.hard.Term, 1000))))
	}
	require.NoError(t, s.Close())
	disk.PowerCut(faultdisk.Nothing)
	disk.Replace(name, repaired)

	s = open(t, disk)
	_, err = s.Entries(last+1, s.LastIndex()+1, 1000)
	require.ErrorContains(t, err, "the next segment begins")
	require.Equal(t, name, damagedIn(err))
	for what, look := range map[string]func(func(error)) error{
		"check": s.Check, "scrub": func(found func(error)) error { return s.Scrub(nil, found) },
	} {
		var found error
		require.NoError(t, look(func(err error) { found = err }))
		require.Equal(t, name, damagedIn(found), what)
	}
	require.NoError(t, s.Close())
	require.False(t, survey(t, disk).Whole())
}
