package cluster

import (
	"slices"

	"strandline.dev/internal/sequence"
)

// RoomOf returns what a disk with free bytes free has room for. There are two thresholds: below
// minFree the disk takes no records, below a quarter of that only trims. The space in between is
// for commands, and for entries in flight.
func RoomOf(free, minFree int64) sequence.Room {
	switch {
	case free < minFree/4:
		return sequence.RoomForTrims
	case free < minFree:
		return sequence.RoomForCommands
	}
	return sequence.RoomForRecords
}

// VoterRoom is what the disk of a voter has room for, as far as is known.
type VoterRoom struct {
	Voter uint64
	Room  sequence.Room
	// Gone is set if its node has not been connected for a while.
	Gone bool
	// LastResort is set if it should lead only if no other can, because its node is drained or leaving.
	LastResort bool
}

// MajorityRoom returns what more than half of the voters' disks have room for. A leader accepts
// what its own disk and a majority of the disks have room for. If its own disk has room for less,
// one of heirs should lead: the other voters with that room. All three are passed to
// Replica.SetRoom. As long as no known disk is full, an unreachable node is no reason to refuse
// records: the disks do not decide whether a majority answers.
func MajorityRoom(own uint64, voters []VoterRoom) (majority sequence.Room, heirs []uint64) {
	least := sequence.RoomForRecords
	for _, v := range voters {
		if !v.Gone {
			least = max(least, v.Room)
		}
	}
	rooms := make([]sequence.Room, 0, len(voters))
	for _, v := range voters {
		if v.Gone {
			v.Room = max(v.Room, least)
		}
		rooms = append(rooms, v.Room)
	}
	slices.Sort(rooms)
	majority = rooms[len(rooms)/2]
	for _, lastResort := range []bool{false, true} {
		for _, v := range voters {
			if v.Voter != own && !v.Gone && v.LastResort == lastResort && v.Room <= majority {
				heirs = append(heirs, v.Voter)
			}
		}
		if len(heirs) > 0 {
			break
		}
	}
	return majority, heirs
}
