package sim

import (
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/sequence"
)

// minFree is what must stay free on a disk for appends to be taken: room for all
// that continues without them.
const minFree = 16 * segmentBytes

// room is what the disk has room for.
func (n *media) room() sequence.Room {
	free, _, err := n.disk.Free(".")
	if err != nil {
		return sequence.RoomForRecords
	}
	return cluster.RoomOf(free, minFree)
}

// watchSpace reports to the replica what its disk, and those of a majority, have
// room for.
func (n *media) watchSpace() {
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
		majority = cluster.MajorityRoom(rooms)
		switch max(own, majority) {
		case sequence.RoomForTrims:
			n.world.counts.OnlyTrims++
		case sequence.RoomForCommands:
			n.world.counts.NoRecords++
		}
		if n.replica.Stalled() > 0 {
			n.world.counts.Stalled++
		}
	}
	n.replica.SetRoom(own, majority)
}
