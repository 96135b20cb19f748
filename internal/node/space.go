package node

import (
	"sync/atomic"

	"strandline.dev/internal/segment"
)

// space is how much of the disk is left, as last looked at.
type space struct {
	free, total atomic.Int64
	full        atomic.Bool
	// written counts bytes since the last look.
	written atomic.Int64
}

// observe looks at the disk and reports whether "full" changed. A disk that
// cannot be asked counts as it did before.
func (s *space) observe(disk segment.FS, dir string, minFree int64) (changed bool) {
	s.written.Store(0)
	free, total, err := disk.Free(dir)
	if err != nil {
		return false
	}
	s.free.Store(free)
	s.total.Store(total)
	full := free < minFree
	return s.full.Swap(full) != full
}

func (s *space) known() (free, total int64) { return s.free.Load(), s.total.Load() }

// wrote counts bytes, and looks at the disk when they could have used up an
// eighth of what must stay free: a fast disk fills between two ticks.
func (n *Node) wrote(bytes int) {
	if n.space.written.Add(int64(bytes)) > n.options.MinFree/8 {
		n.watchSpace()
	}
}

// watchSpace looks at the disk and tells the logs when it has become full, or
// has room again.
func (n *Node) watchSpace() {
	if !n.space.observe(n.disk, n.options.DataDir, n.options.MinFree) {
		return
	}
	free, _ := n.space.known()
	if n.space.full.Load() {
		n.logger.Error("the disk is nearly full; appends are refused until there is room", "free", free, "min_free", n.options.MinFree)
	} else {
		n.logger.Info("the disk has room again; appends are taken", "free", free)
	}
	n.tellFull()
}

// tellFull tells every log on disk, except the catalog, whether to take more
// records. A leader stops when its own disk is full, or those of so many others
// that no majority has room.
func (n *Node) tellFull() {
	own := n.space.full.Load()
	for _, h := range *n.logs.Load() {
		if h.replica == nil || !h.onDisk() {
			continue
		}
		full := own
		if s := h.replica.Status(); !own && s.Leading && !s.Alone {
			without := 0
			for _, r := range s.Voters {
				if n.neighbours.full(n.nodeOf(h, r)) {
					without++
				}
			}
			full = 2*(len(s.Voters)-without) <= len(s.Voters)
		}
		h.replica.SetFull(full)
	}
}

// onDisk: appends of the log need room on the disk. The catalog may use the
// reserve.
func (h *hosted) onDisk() bool {
	return h.id != catalogID && h.config.Load().Durability == Disk
}
