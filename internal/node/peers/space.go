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

// Space is the free space of the disk as last observed. Below minFree the disk accepts no records;
// below a quarter of minFree it accepts only trims. The space in between is for commands and for
// entries in progress.
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

// NewSpace returns a Space. Observe must be called before it is used.
func NewSpace(
	options *settings.Options, disk vfs.FS, logger *slog.Logger, me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs,
	incarnations *datadir.Incarnations, router *Router, status *Status,
) *Space {
	return &Space{
		options: options, disk: disk, logger: logger, me: me, catalog: catalog, logs: logs, incarnations: incarnations, router: router, status: status,
	}
}

// Observe reads the free space and reports whether the accepted kinds of entries changed. If the
// disk cannot be read, the last value stays.
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

// own returns the kinds of entries that this node's disk has room for.
func (s *Space) own() sequence.Room { return sequence.Room(s.room.Load()) }

func (s *Space) Full() bool { return s.own() != sequence.RoomForRecords }

// Problem describes why the disk accepts no records; it returns "" while the disk accepts them.
func (s *Space) Problem() string {
	const mib = 1 << 20
	free, _ := s.Known()
	switch s.own() {
	case sequence.RoomForRecords:
		return ""
	case sequence.RoomForCommands:
		return fmt.Sprintf("its disk takes no records: %d MiB are free, less than --min-free %d MiB", free/mib, s.options.MinFree/mib)
	}
	return fmt.Sprintf("its disk takes trims only: %d MiB are free, less than a quarter of --min-free %d MiB", free/mib, s.options.MinFree/mib)
}

func (s *Space) Known() (free, total int64) { return s.free.Load(), s.total.Load() }

// Wrote counts written bytes, and reads the free space when they could have used an eighth of
// minFree: a fast disk can fill between two ticks.
func (s *Space) Wrote(bytes int) {
	s.incarnations.Wrote.Store(true)
	if s.written.Add(int64(bytes)) > s.options.MinFree/8 {
		s.Watch()
	}
}

// Watch reads the free space, and updates the logs when the accepted kinds of entries change.
func (s *Space) Watch() {
	if !s.Observe() {
		return
	}
	free, _ := s.Known()
	switch s.own() {
	case sequence.RoomForRecords:
		s.logger.Info("the disk has room again and takes records", "free", free)
	case sequence.RoomForCommands:
		s.logger.Error("the disk is nearly full and accepts no records until space is free: nodes with free space lead the logs, and logs without a majority of such nodes refuse appends", "free", free, "min_free", s.options.MinFree)
	default:
		s.logger.Error("the disk is full and accepts only trims until space is free: nodes with free space lead the logs, and logs without a majority of such nodes refuse appends", "free", free, "min_free", s.options.MinFree)
	}
	s.SetRooms()
}

// goneAfter is how long a node may be disconnected before its last report about its disk is
// ignored.
const goneAfter = 2 * time.Second

// SetRooms sets the accepted kinds of entries of every log on disk except the catalog. Followers
// also get the state of the other disks, so that a newly elected leader has it at once.
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
				Voter: r, Room: s.status.room(id), LastResort: node.Drained || node.Leaving,
				Gone: id != 0 && id != me && s.status.downFor(id) >= goneAfter,
			})
		}
		majority, heirs := cluster.MajorityRoom(h.ReplicaID, rooms)
		h.Replica.SetRoom(own, majority, heirs...)
	}
}
