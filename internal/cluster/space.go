package cluster

import (
	"slices"

	"strandline.dev/internal/sequence"
)

// RoomOf is what a disk with so many bytes free has room for. Two thresholds divide
// it: below minFree the disk takes no records, below a quarter of that only trims.
// What lies between is for commands, and for entries in flight.
func RoomOf(free, minFree int64) sequence.Room {
	switch {
	case free < minFree/4:
		return sequence.RoomForTrims
	case free < minFree:
		return sequence.RoomForCommands
	}
	return sequence.RoomForRecords
}

// MajorityRoom is what more than half of the voters' disks have room for. A leader
// takes what its own disk and those of a majority have room for: drive it with the
// Room of every voter, and give the result to Replica.SetRoom. The slice is sorted.
func MajorityRoom(voters []sequence.Room) sequence.Room {
	slices.Sort(voters)
	return voters[len(voters)/2]
}
