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
	if n.world.memory {
		return
	}
	own := n.room()
	s := n.replica.Status()
	if s.SoleVoter || len(s.Voters) == 0 {
		n.replica.SetRoom(own, own)
		return
	}
	var rooms []cluster.VoterRoom
	for _, voter := range s.Voters {
		v := cluster.VoterRoom{Voter: voter, Room: sequence.RoomForRecords}
		if node := n.nodeOf(voter); node != 0 {
			other := n.world.nodes[node-1]
			v.Room, v.Gone = other.room(), !other.up
		}
		rooms = append(rooms, v)
	}
	majority, heirs := cluster.MajorityRoom(n.replicaID, rooms)
	n.replica.SetRoom(own, majority, heirs...)
	if !s.Leading {
		return
	}
	switch majority {
	case sequence.RoomForTrims:
		n.world.counts.OnlyTrims++
	case sequence.RoomForCommands:
		n.world.counts.NoRecords++
	}
	if own > majority {
		n.world.counts.LeftFull++
	}
	if n.replica.Stalled() > 0 {
		n.world.counts.Stalled++
	}
}
