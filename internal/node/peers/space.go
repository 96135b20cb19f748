package peers

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
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
	me           *datadir.Me
	catalog      *catalog.Shared
	logs         *hosted.Logs
	incarnations *datadir.Incarnations
	router       *Router
	status       *Status

	free, total atomic.Int64
	room        atomic.Uint32 // sequence.Room
	// written counts bytes since the last look.
	written atomic.Int64
}

// NewSpace returns a Space; Observe looks at the disk first.
func NewSpace(
	options *settings.Options, disk vfs.FS, logger *slog.Logger, me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs,
	incarnations *datadir.Incarnations, router *Router, status *Status,
) *Space {
	return &Space{
		options: options, disk: disk, logger: logger, me: me, catalog: catalog, logs: logs, incarnations: incarnations, router: router, status: status,
	}
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

// Problem says that the disk takes no records, and why; "" while it does.
func (s *Space) Problem() string {
	const mib = 1 << 20
	free, _ := s.Known()
	switch s.own() {
	case sequence.RoomForRecords:
		return ""
	case sequence.RoomForCommands:
		return fmt.Sprintf("its disk takes no records: %d MiB are free, fewer than --min-free %d MiB", free/mib, s.options.MinFree/mib)
	}
	return fmt.Sprintf("its disk takes trims only: %d MiB are free, fewer than a quarter of --min-free %d MiB", free/mib, s.options.MinFree/mib)
}

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
		s.logger.Info("the disk has room again and takes records", "free", free)
	case sequence.RoomForCommands:
		s.logger.Error("the disk is nearly full and takes no records until there is room: logs are led by nodes that have some, and appends are refused where no majority has", "free", free, "min_free", s.options.MinFree)
	default:
		s.logger.Error("the disk is full and takes only trims until there is room: logs are led by nodes that have some, and appends are refused where no majority has", "free", free, "min_free", s.options.MinFree)
	}
	s.SetRooms()
}

// goneAfter is for how long a node is not connected before what it said of its disk counts
// no more.
const goneAfter = 2 * time.Second

// SetRooms sets for every log on disk, except the catalog, what there is room for. Followers
// learn of the others' disks too: one that is elected knows at once.
func (s *Space) SetRooms() {
	own, me := s.own(), s.me.Load().NodeID
	var state *cluster.State
	if c := s.catalog.Load(); c != nil {
		state = c.Shown.Load()
	}
	for _, h := range s.logs.All() {
		if h.Replica == nil || !h.OnDisk() {
			continue
		}
		now := h.Replica.Status()
		if now.SoleVoter || len(now.Voters) == 0 || state == nil {
			h.Replica.SetRoom(own, own)
			continue
		}
		rooms := make([]cluster.VoterRoom, 0, len(now.Voters))
		for _, r := range now.Voters {
			if r == h.ReplicaID {
				rooms = append(rooms, cluster.VoterRoom{Voter: r, Room: own})
				continue
			}
			id := s.router.NodeOf(h, r)
			node := state.Nodes[id]
			rooms = append(rooms, cluster.VoterRoom{
				Voter: r, Room: s.status.room(id), Shy: node.Drained || node.Leaving,
				Gone: id != 0 && id != me && s.status.downFor(id) >= goneAfter,
			})
		}
		majority, heirs := cluster.MajorityRoom(h.ReplicaID, rooms)
		h.Replica.SetRoom(own, majority, heirs...)
	}
}
