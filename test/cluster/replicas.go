package cluster

import (
	"io"
	"log/slog"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// kept is one entry as a replica has it.
type kept struct {
	term uint64
	crc  uint32
}

// RequireSameReplicas compares what nodes that do not run have stored of every
// log: an entry that is committed and kept on several is the same on all of
// them. It returns how many were compared.
func (c *Cluster) RequireSameReplicas() (entries int) {
	c.t.Helper()
	first := map[string]map[uint64]kept{}
	for _, n := range c.nodes {
		for _, dir := range n.Replicas() {
			log := filepath.Base(filepath.Dir(dir))
			if first[log] == nil {
				first[log] = map[uint64]kept{}
			}
			entries += c.compare(dir, first[log])
		}
	}
	return entries
}

// compare reads the committed entries of a replica, and adds those to known that
// are not there.
func (c *Cluster) compare(dir string, known map[uint64]kept) (compared int) {
	c.t.Helper()
	log, err := repair.Open(vfs.OS(), dir, store.Options{Manual: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(c.t, err)
	defer func() { require.NoError(c.t, log.Close()) }()
	next, end := log.FirstIndex(), min(log.HardState().Commit, log.LastIndex())+1
	for next < end {
		frames, err := log.Entries(next, end, 1<<20)
		require.NoError(c.t, err)
		for _, f := range frames {
			here := kept{f.Term, f.CRC}
			if there, both := known[f.Index]; both {
				compared++
				require.Equal(c.t, there, here, "entry %d in %s is not that of another replica", f.Index, dir)
			}
			known[f.Index] = here
		}
		next = frames[len(frames)-1].Index + 1
	}
	return compared
}
