package node

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// splice writes the last entry of a log anew, of a node that is stopped, as one
// that follows others than those in front of it.
func splice(t *testing.T, dir string) {
	t.Helper()
	data := filepath.Join(dir, "..", "..", "..")
	id := func(dir string) (id uint64) {
		id, err := strconv.ParseUint(filepath.Base(dir), 10, 64)
		require.NoError(t, err)
		return id
	}
	log, err := repair.Open(vfs.OS(), dir, store.Options{Watermark: datadir.WatermarkPath(data, id(filepath.Dir(dir)), id(dir))})
	require.NoError(t, err)
	last := log.LastIndex()
	frames, err := log.Entries(last, last+1, 1<<20)
	require.NoError(t, err)
	const chain = 16 // position in an entry
	frames[0].Payload[chain] ^= 1
	frames[0].CRC = record.Checksum(frames[0].Payload)
	_, err = log.Write([]segment.Write{{Frames: frames, MustSync: true}})
	require.NoError(t, err)
	require.NoError(t, log.Close())
}

func TestAReplicaWhoseEntriesDoNotFollowEachOtherComesBackUnderANewId(t *testing.T) {
	c := three(t, 10)
	before, dir := c.replicaOf("c", "orders")
	c.stop("c")
	splice(t, dir)
	c.start("c", nil)
	c.renewed("c", "orders", before)
	c.sameOn("orders", numbered(0, 10))
	_, err := repair.Open(vfs.OS(), dir, store.Options{})
	require.ErrorIs(t, err, fs.ErrNotExist, "its files are set aside")
}
