package kafkaserver

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
	"strandline.dev/internal/vfs"
)

// gatedDisk is a disk whose syncs wait while its gate is shut.
type gatedDisk struct {
	vfs.FS
	gate sync.RWMutex
}

func (d *gatedDisk) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return gatedFile{f, d}, err
}

func (d *gatedDisk) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return gatedFile{f, d}, err
}

type gatedFile struct {
	vfs.File
	disk *gatedDisk
}

func (f gatedFile) Datasync() error {
	f.disk.gate.RLock()
	defer f.disk.gate.RUnlock()
	return f.File.Datasync()
}

func TestAcksOfTheLeaderComeBeforeTheSyncAndShowNothingToReaders(t *testing.T) {
	disk := &gatedDisk{FS: vfs.OS()}
	d := openOn(t, t.TempDir(), Options{}, disk)
	d.create("orders", 1)
	c := d.raw()

	disk.gate.Lock()
	open := sync.OnceFunc(disk.gate.Unlock)
	defer open() // or a failed test could not close its node
	p := c.produce("orders", acksLeader, batchOf(t, record.None, "a", "b"))
	require.Zero(t, p.ErrorCode)
	require.Zero(t, p.BaseOffset)
	b, err := d.node.Bounds(node.Caller{}, "orders")
	require.NoError(t, err)
	require.Zero(t, b.End, "nothing is committed, so nobody sees it")
	require.Empty(t, d.raw().fetch(fetchRequest(11, 0, 1, 1<<20, 0, "orders")).Topics[0].Partitions[0].RecordBatches)
	open()

	require.EqualValues(t, 2, c.produce("orders", acksAll, batchOf(t, record.None, "c")).BaseOffset)
	require.Equal(t, 3, countRecords(t, d.stored("orders")))
}

func TestALogInMemoryAnswersTheLeadersAcksToo(t *testing.T) {
	d := openNew(t)
	_, err := d.node.CreateLog(t.Context(), node.Caller{}, "orders", node.Config{Durability: node.Memory})
	require.NoError(t, err)
	for i := range 10 {
		p := d.raw().produce("orders", acksLeader, batchOf(t, record.None, "a"))
		require.Zero(t, p.ErrorCode)
		require.EqualValues(t, i, p.BaseOffset)
	}
}
