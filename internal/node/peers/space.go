package peers

import (
	"log/slog"
	"sync/atomic"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/vfs"
)

// Space is how much of the disk is left, as last looked at. Two thresholds divide
// what it has room for: below minFree it takes no records, below a quarter of that
// trims only. What lies between is for commands, and for entries in flight.
type Space struct {
	options      *settings.Options
	disk         vfs.FS
	logger       *slog.Logger
	logs         *hosted.Logs
	incarnations *datadir.Incarnations
	peers        *Peers
	router       *Router

	free, total atomic.Int64
	room        atomic.Uint32 // sequence.Room
	// written counts bytes since the last look.
	written atomic.Int64
}

// Observe looks at the disk and reports whether what it has room for changed. A
// disk that cannot be asked counts as it did before.
func (s *Space) Observe() (changed bool) {
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
func (s *Space) own() sequence.Room { return sequence.Room(s.room.Load()) }

func (s *Space) Full() bool { return s.own() != sequence.RoomForRecords }

func (s *Space) Known() (free, total int64) { return s.free.Load(), s.total.Load() }

// Wrote counts bytes, and looks at the disk when they could have used up an
// eighth of what must stay free: a fast disk fills between two ticks.
func (s *Space) Wrote(bytes int) {
	s.incarnations.Wrote.Store(true)
	if s.written.Add(int64(bytes)) > s.options.MinFree/8 {
		s.Watch()
	}
}

// Watch looks at the disk and updates the logs when it has room for more, or
// for less, than before.
func (s *Space) Watch() {
	if !s.Observe() {
		return
	}
	free, _ := s.Known()
	switch s.own() {
	case sequence.RoomForRecords:
		s.logger.Info("the disk has room again; appends are taken", "free", free)
	case sequence.RoomForCommands:
		s.logger.Error("the disk is nearly full; appends are refused until there is room", "free", free, "min_free", s.options.MinFree)
	default:
		s.logger.Error("the disk is full; only trims are taken until there is room", "free", free, "min_free", s.options.MinFree)
	}
	s.SetRooms()
}

// SetRooms sets for every log on disk, except the catalog, what there is room for.
func (s *Space) SetRooms() {
	own := s.own()
	for _, h := range s.logs.All() {
		if h.Replica == nil || !h.OnDisk() {
			continue
		}
		majority := own
		if now := h.Replica.Status(); now.Leading && !now.SoleVoter {
			rooms := make([]sequence.Room, 0, len(now.Voters))
			for _, r := range now.Voters {
				if r == h.ReplicaID {
					rooms = append(rooms, own)
				} else {
					rooms = append(rooms, s.peers.Status.room(s.router.NodeOf(h, r)))
				}
			}
			majority = cluster.MajorityRoom(rooms)
		}
		h.Replica.SetRoom(own, majority)
	}
}
