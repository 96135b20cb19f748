package runtime

import (
	"slices"

	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
)

// SetRoom says what this replica's disk, and the disks of a majority of the
// replicas, have room for, and which other voters have room for what a majority has.
func (r *Replica) SetRoom(own, majority sequence.Room, heirs ...uint64) {
	now := room{own, majority, heirs}
	if before := r.room.Swap(&now); before == nil || before.own != own || before.majority != majority || !slices.Equal(before.heirs, heirs) {
		// What was said last counts, in whatever order it is posted.
		r.post(input{do: func(c *core.Core) {
			now := r.room.Load()
			c.SetRoom(now.own, now.majority, now.heirs...)
		}})
	}
}

// room is what SetRoom said last.
type room struct {
	own, majority sequence.Room
	heirs         []uint64
}

// Full reports whether records are refused for lack of room: that of a majority.
func (r *Replica) Full() bool {
	now := r.room.Load()
	return now != nil && now.majority != sequence.RoomForRecords
}
