package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/sequence"
)

func TestTwoThresholdsDivideWhatADiskHasRoomFor(t *testing.T) {
	for free, room := range map[int64]sequence.Room{
		100: sequence.RoomForRecords, 99: sequence.RoomForCommands, 25: sequence.RoomForCommands, 24: sequence.RoomForTrims, 0: sequence.RoomForTrims,
	} {
		require.Equal(t, room, RoomOf(free, 100), "%d bytes free", free)
	}
	require.Equal(t, sequence.RoomForRecords, RoomOf(0, 0), "nothing is to be kept free")
}

func TestALeaderAcceptsWhatAMajorityHasRoomFor(t *testing.T) {
	const records, commands, trims = sequence.RoomForRecords, sequence.RoomForCommands, sequence.RoomForTrims
	for _, c := range []struct {
		rooms []sequence.Room
		room  sequence.Room
	}{
		{[]sequence.Room{commands}, commands},
		{[]sequence.Room{records, trims}, trims},
		{[]sequence.Room{trims, records, records}, records},
		{[]sequence.Room{trims, commands, records}, commands},
		{[]sequence.Room{trims, records, trims}, trims},
		{[]sequence.Room{commands, trims, records, records}, commands},
	} {
		require.Equal(t, c.room, MajorityRoom(c.rooms), "%v", c.rooms)
	}
}
