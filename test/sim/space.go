package sim

import (
	"slices"

	"strandline.dev/internal/sequence"
)

// minFree is what must stay free on a disk for appends to be taken: room for all
// that goes on without them.
const minFree = 16 * segmentBytes

// commandsFree must stay free for commands to be taken other than trims.
const commandsFree = minFree / 4

// room is what the disk has room for.
func (n *node) room() sequence.Room {
	free, _, err := n.disk.Free(".")
	switch {
	case err != nil || free >= minFree:
		return sequence.RoomForRecords
	case free >= commandsFree:
		return sequence.RoomForCommands
	}
	return sequence.RoomForTrims
}

// watchSpace tells the replica what its disk, and those of a majority, have room
// for.
func (n *node) watchSpace() {
	own := n.room()
	majority := own
	if s := n.replica.Status(); s.Leading {
		var rooms []sequence.Room
		for _, voter := range s.Voters {
			room := sequence.RoomForRecords
			if node := n.nodeOf(voter); node != 0 {
				room = n.world.nodes[node-1].room()
			}
			rooms = append(rooms, room)
		}
		slices.Sort(rooms)
		majority = rooms[len(rooms)/2]
	}
	n.replica.SetRoom(own, majority)
}
