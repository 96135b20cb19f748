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
		rooms []sequence.Room // the first one is the leader's own
		room  sequence.Room
		heirs []uint64
	}{
		{[]sequence.Room{commands}, commands, nil},
		{[]sequence.Room{records, trims}, trims, []uint64{2}},
		{[]sequence.Room{trims, records, records}, records, []uint64{2, 3}},
		{[]sequence.Room{trims, commands, records}, commands, []uint64{2, 3}},
		{[]sequence.Room{trims, records, trims}, trims, []uint64{2, 3}},
		{[]sequence.Room{commands, trims, records, records}, commands, []uint64{3, 4}},
	} {
		var voters []VoterRoom
		for i, r := range c.rooms {
			voters = append(voters, VoterRoom{Voter: uint64(i + 1), Room: r})
		}
		room, heirs := MajorityRoom(1, voters)
		require.Equal(t, c.room, room, "%v", c.rooms)
		require.Equal(t, c.heirs, heirs, "%v", c.rooms)
	}
}

// What it said last was said before it went, and it takes nothing now.
func TestANodeThatIsGoneHasNoRoomWhereAnotherIsFull(t *testing.T) {
	const records, commands = sequence.RoomForRecords, sequence.RoomForCommands
	full, well, gone := VoterRoom{Voter: 1, Room: commands}, VoterRoom{Voter: 2}, VoterRoom{Voter: 3, Gone: true}
	room, heirs := MajorityRoom(1, []VoterRoom{full, well, gone})
	require.Equal(t, commands, room, "the other one would lead and commit nothing")
	require.Equal(t, []uint64{2}, heirs)
	room, heirs = MajorityRoom(2, []VoterRoom{full, well, {Voter: 3}})
	require.Equal(t, records, room)
	require.Equal(t, []uint64{3}, heirs)
	room, _ = MajorityRoom(2, []VoterRoom{{Voter: 1, Gone: true}, well, gone})
	require.Equal(t, records, room, "appends wait for a majority")
}

func TestADrainedNodeLeadsForAFullOneOnlyWhereNobodyElseCan(t *testing.T) {
	full, drained := VoterRoom{Voter: 1, Room: sequence.RoomForCommands}, VoterRoom{Voter: 2, LastResort: true}
	_, heirs := MajorityRoom(1, []VoterRoom{full, drained, {Voter: 3}})
	require.Equal(t, []uint64{3}, heirs)
	_, heirs = MajorityRoom(1, []VoterRoom{full, drained, {Voter: 3, LastResort: true}})
	require.Equal(t, []uint64{2, 3}, heirs)
}
