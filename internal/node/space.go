package node

import (
	"sync/atomic"

	"strandline.dev/internal/segment"
)

// space is how much of the disk is left, as last looked at.
type space struct {
	free, total atomic.Int64
	full        atomic.Bool
}

// observe looks at the disk and reports whether "full" changed. A disk that
// cannot be asked counts as it did before.
func (s *space) observe(disk segment.FS, dir string, minFree int64) (changed bool) {
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
