package node

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/vfs"
)

// hangingDisk does not open or remove the files of the first log while it hangs.
type hangingDisk struct {
	vfs.FS
	hang sync.RWMutex // held while it does
}

func (d *hangingDisk) wait(name string) {
	if strings.Contains(filepath.ToSlash(name)+"/", "/logs/1/") {
		d.hang.RLock()
		defer d.hang.RUnlock()
	}
}

func (d *hangingDisk) Open(name string) (vfs.File, error) {
	d.wait(name)
	return d.FS.Open(name)
}

func (d *hangingDisk) RemoveAll(name string) error {
	d.wait(name)
	return d.FS.RemoveAll(name)
}

func hangingCluster(t *testing.T) (*testCluster, *hangingDisk) {
	disk := &hangingDisk{FS: vfs.OS()}
	c := newClusterWith(t, func(o *Options) {
		if o.Name == "c" {
			o.Disk, o.DiskStall = disk, 100*time.Millisecond
		}
	}, "a", "b", "c")
	for _, log := range []string{"orders", "others"} {
		_, err := c.nodes["a"].CreateLog(t.Context(), anyone, log, Config{})
		require.NoError(t, err)
		c.append(log, "one")
	}
	c.healthy()
	return c, disk
}

func (c *testCluster) runsOn(node, log string) bool {
	h := c.nodes[node].logs.named(log)
	return h != nil && h.problem() == nil
}

func TestALogWhoseFilesTakeForEverToOpenHoldsNothingElseUp(t *testing.T) {
	t.Parallel()
	c, disk := hangingCluster(t)
	c.stop("c")
	disk.hang.Lock()
	works := sync.OnceFunc(disk.hang.Unlock)
	defer works()
	c.start("c", nil)
	c.eventually("the other log runs", func() bool { return c.runsOn("c", "others") })
	c.eventually("readiness names the log", func() bool {
		err := c.nodes["c"].Ready()
		return err != nil && contains(err, "the disk has not answered")
	})
	require.True(t, c.nodes["c"].spread.own().Unfit)
	_, err := c.nodes["a"].CreateLog(t.Context(), anyone, "more", Config{})
	require.NoError(t, err)
	c.eventually("a new log runs", func() bool { return c.runsOn("c", "more") })

	works()
	c.healthy()
	texts, err := c.values("c", "orders", ReadRequest{Consistency: ConsistencyLinearizable})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, texts)
}

func TestALogWhoseFilesTakeForEverToOpenDoesNotBlockClose(t *testing.T) {
	t.Parallel()
	c, disk := hangingCluster(t)
	c.stop("c")
	disk.hang.Lock()
	works := sync.OnceFunc(disk.hang.Unlock)
	defer works()
	c.start("c", nil)
	c.eventually("the other log runs", func() bool { return c.runsOn("c", "others") })
	other := c.nodes["c"].logs.named("others")
	closing, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.nodes["c"].Close(closing), runtime.ErrStalled)
	<-other.replica.Ended() // it was closed all the same
	works()
	c.stop("c")
	c.start("c", nil)
	c.healthy()
}

func TestFilesThatTakeForEverToRemoveHoldNothingElseUp(t *testing.T) {
	t.Parallel()
	c, disk := hangingCluster(t)
	disk.hang.Lock()
	works := sync.OnceFunc(disk.hang.Unlock)
	defer works()
	require.NoError(t, c.nodes["a"].DeleteLog(t.Context(), anyone, "orders"))
	c.eventually("the log has left", func() bool { return c.nodes["c"].logs.named("orders") == nil })
	_, err := c.nodes["a"].CreateLog(t.Context(), anyone, "more", Config{})
	require.NoError(t, err)
	c.eventually("a new log runs", func() bool { return c.runsOn("c", "more") })
	works()
	c.eventually("its files are gone", func() bool {
		replicas, err := disk.ListDirs(c.nodes["c"].files.logDir(1))
		return err != nil || len(replicas) == 0
	})
}
