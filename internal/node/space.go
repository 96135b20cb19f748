package node

import (
	"sync/atomic"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/vfs"
)

// space is how much of the disk is left, as last looked at. Two thresholds divide
// what it has room for: below minFree it takes no records, below a quarter of that
// trims only. What lies between is for commands, and for entries in flight.
type space struct {
	free, total atomic.Int64
	room        atomic.Uint32 // sequence.Room
	// written counts bytes since the last look.
	written atomic.Int64
}

// observe looks at the disk and reports whether what it has room for changed. A
// disk that cannot be asked counts as it did before.
func (s *space) observe(disk vfs.FS, dir string, minFree int64) (changed bool) {
	s.written.Store(0)
	free, total, err := disk.Free(dir)
	if err != nil {
		return false
	}
	s.free.Store(free)
	s.total.Store(total)
	room := cluster.RoomOf(free, minFree)
	return sequence.Room(s.room.Swap(uint32(room))) != room
}

// own is what this node's disk has room for.
func (s *space) own() sequence.Room { return sequence.Room(s.room.Load()) }

func (s *space) full() bool { return s.own() != sequence.RoomForRecords }

func (s *space) known() (free, total int64) { return s.free.Load(), s.total.Load() }

// wrote counts bytes, and looks at the disk when they could have used up an
// eighth of what must stay free: a fast disk fills between two ticks.
func (n *Node) wrote(bytes int) {
	n.lives.wrote.Store(true)
	if n.space.written.Add(int64(bytes)) > n.options.MinFree/8 {
		n.watchSpace()
	}
}

// watchSpace looks at the disk and tells the logs when it has room for more, or
// for less, than before.
func (n *Node) watchSpace() {
	if !n.space.observe(n.disk, n.options.DataDir, n.options.MinFree) {
		return
	}
	free, _ := n.space.known()
	switch n.space.own() {
	case sequence.RoomForRecords:
		n.logger.Info("the disk has room again; appends are taken", "free", free)
	case sequence.RoomForCommands:
		n.logger.Error("the disk is nearly full; appends are refused until there is room", "free", free, "min_free", n.options.MinFree)
	default:
		n.logger.Error("the disk is full; only trims are taken until there is room", "free", free, "min_free", n.options.MinFree)
	}
	n.tellRoom()
}

// tellRoom tells every log on disk, except the catalog, what there is room for.
func (n *Node) tellRoom() {
	own := n.space.own()
	for _, h := range *n.logs.Load() {
		if h.replica == nil || !h.onDisk() {
			continue
		}
		majority := own
		if s := h.replica.Status(); s.Leading && !s.SoleVoter {
			rooms := make([]sequence.Room, 0, len(s.Voters))
			for _, r := range s.Voters {
				if r == h.replicaID {
					rooms = append(rooms, own)
				} else {
					rooms = append(rooms, n.neighbours.room(n.nodeOf(h, r)))
				}
			}
			majority = cluster.MajorityRoom(rooms)
		}
		h.replica.SetRoom(own, majority)
	}
}

// onDisk: appends of the log need room on the disk. The catalog may use the
// reserve.
func (h *hosted) onDisk() bool {
	return h.id != catalogID && h.config.Load().Durability == Disk
}
