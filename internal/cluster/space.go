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

// VoterRoom is what the disk of a voter has room for, as far as is known.
type VoterRoom struct {
	Voter uint64
	Room  sequence.Room
	// Gone: its node has not been connected for a while, and has room for nothing.
	Gone bool
	// Shy: it leads only where nobody else can, because its node is drained or leaves.
	Shy bool
}

// MajorityRoom returns what more than half of the voters' disks have room for. A leader
// takes what its own disk and those of a majority have room for; where its own has room for
// less, one of heirs is to lead: those among the other voters that have that room. Give all
// three to Replica.SetRoom. As long as no disk that is known is full, a node that is gone is no
// reason to refuse records: that no majority answers is not for the disks to say.
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
	for _, shy := range []bool{false, true} {
		for _, v := range voters {
			if v.Voter != own && !v.Gone && v.Shy == shy && v.Room <= majority {
				heirs = append(heirs, v.Voter)
			}
		}
		if len(heirs) > 0 {
			break
		}
	}
	return majority, heirs
}
