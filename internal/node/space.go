package node

import (
	"log/slog"
	"sync/atomic"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/vfs"
)

// space is how much of the disk is left, as last looked at. Two thresholds divide
// what it has room for: below minFree it takes no records, below a quarter of that
// trims only. What lies between is for commands, and for entries in flight.
type space struct {
	options      *Options
	disk         vfs.FS
	logger       *slog.Logger
	logs         *hostedLogs
	incarnations *datadir.Incarnations
	peers        *peers
	router       *router

	free, total atomic.Int64
	room        atomic.Uint32 // sequence.Room
	// written counts bytes since the last look.
	written atomic.Int64
}

// observe looks at the disk and reports whether what it has room for changed. A
// disk that cannot be asked counts as it did before.
func (s *space) observe() (changed bool) {
	s.written.Store(0)
	free, total, err := s.disk.Free(s.options.DataDir)
	if err != nil {
		return false
	}
	s.free.Store(free)
	s.total.Store(total)
	room := cluster.RoomOf(free, s.options.MinFree)
	return sequence.Room(s.room.Swap(uint32(room))) != room
}

// own is what this node's disk has room for.
func (s *space) own() sequence.Room { return sequence.Room(s.room.Load()) }

func (s *space) full() bool { return s.own() != sequence.RoomForRecords }

func (s *space) known() (free, total int64) { return s.free.Load(), s.total.Load() }

// wrote counts bytes, and looks at the disk when they could have used up an
// eighth of what must stay free: a fast disk fills between two ticks.
func (s *space) wrote(bytes int) {
	s.incarnations.Wrote.Store(true)
	if s.written.Add(int64(bytes)) > s.options.MinFree/8 {
		s.watch()
	}
}

// watch looks at the disk and updates the logs when it has room for more, or
// for less, than before.
func (s *space) watch() {
	if !s.observe() {
		return
	}
	free, _ := s.known()
	switch s.own() {
	case sequence.RoomForRecords:
		s.logger.Info("the disk has room again; appends are taken", "free", free)
	case sequence.RoomForCommands:
		s.logger.Error("the disk is nearly full; appends are refused until there is room", "free", free, "min_free", s.options.MinFree)
	default:
		s.logger.Error("the disk is full; only trims are taken until there is room", "free", free, "min_free", s.options.MinFree)
	}
	s.setRooms()
}

// setRooms sets for every log on disk, except the catalog, what there is room for.
func (s *space) setRooms() {
	own := s.own()
	for _, h := range s.logs.all() {
		if h.replica == nil || !h.onDisk() {
			continue
		}
		majority := own
		if now := h.replica.Status(); now.Leading && !now.SoleVoter {
			rooms := make([]sequence.Room, 0, len(now.Voters))
			for _, r := range now.Voters {
				if r == h.replicaID {
					rooms = append(rooms, own)
				} else {
					rooms = append(rooms, s.peers.status.room(s.router.nodeOf(h, r)))
				}
			}
			majority = cluster.MajorityRoom(rooms)
		}
		h.replica.SetRoom(own, majority)
	}
}
