package runtime

import (
	"slices"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
)

// SetRoom sets what this replica's disk, and the disks of a majority of the replicas, have room
// for, and which other voters have the room of a majority.
func (r *Replica) SetRoom(own, majority sequence.Room, heirs ...uint64) {
	now := room{own, majority, heirs}
	if before := r.room.Swap(&now); before == nil || before.own != own || before.majority != majority || !slices.Equal(before.heirs, heirs) {
		// The last call counts, in whatever order the inputs are posted.
		r.post(input{do: func(c *core.Core) {
			now := r.room.Load()
			c.SetRoom(now.own, now.majority, now.heirs...)
		}})
	}
}

// room is the arguments of the last SetRoom.
type room struct {
	own, majority sequence.Room
	heirs         []uint64
}

// Full reports whether records are refused because a majority lacks room.
func (r *Replica) Full() bool {
	now := r.room.Load()
	return now != nil && now.majority != sequence.RoomForRecords
}
