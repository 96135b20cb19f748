package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/vfs"
)

// hangingDisk does not open, rename or remove some files, or read its free space, while it hangs.
type hangingDisk struct {
	vfs.FS
	hang    sync.RWMutex           // held while it does
	hangs   atomic.Pointer[string] // a part of the names that it hangs for
	waiting atomic.Int32           // calls that wait
}

func (d *hangingDisk) wait(name string) {
	if strings.Contains(filepath.ToSlash(name)+"/", *d.hangs.Load()) {
		d.waiting.Add(1)
		defer d.waiting.Add(-1)
		d.hang.RLock()
		defer d.hang.RUnlock()
	}
}

func (d *hangingDisk) Open(name string) (vfs.File, error) {
	d.wait(name)
	return d.FS.Open(name)
}

func (d *hangingDisk) Rename(from, to string) error {
	d.wait(to)
	return d.FS.Rename(from, to)
}

func (d *hangingDisk) RemoveAll(name string) error {
	d.wait(name)
	return d.FS.RemoveAll(name)
}

const freeSpace = "free space of " // in front of the directory

func (d *hangingDisk) Free(dir string) (free, total int64, err error) {
	d.wait(freeSpace + dir)
	return d.FS.Free(dir)
}

// hangingCluster has a disk on c that may hang for the files of the first log, of
// two. stall is how long its node waits for what it waits for.
func hangingCluster(t *testing.T, stall time.Duration) (*testCluster, *hangingDisk) {
	disk := &hangingDisk{FS: vfs.OS()}
	disk.hangs.Store(new("/logs/1/"))
	c := newClusterWith(t, func(o *settings.Options) {
		if o.Name == "c" {
			o.Disk, o.DiskStall = disk, stall
		}
	}, "a", "b", "c")
	for _, log := range []string{"orders", "others"} {
		_, err := c.createLog("a", log, settings.Config{})
		require.NoError(t, err)
		c.append(log, "one")
	}
	c.healthy()
	return c, disk
}

// requireUpkeep requires that c hosts a new log, while its disk hangs.
func (d *hangingDisk) requireUpkeep(c *testCluster) {
	c.t.Helper()
	c.eventually("the disk hangs", func() bool { return d.waiting.Load() > 0 })
	_, err := c.createLog("a", "more", settings.Config{})
	require.NoError(c.t, err)
	c.eventually("a new log runs", func() bool { return c.runsOn("c", "more") })
	require.Positive(c.t, d.waiting.Load())
}

func (c *testCluster) runsOn(node, log string) bool {
	h := c.nodes[node].logs.Named(log)
	return h != nil && h.Problem() == nil
}

func TestALogWhoseFilesTakeForEverToOpenHoldsNothingElseUp(t *testing.T) {
	t.Parallel()
	c, disk := hangingCluster(t, 100*time.Millisecond)
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
	require.True(t, c.nodes["c"].spread.Own().Unfit)
	_, err := c.createLog("a", "more", settings.Config{})
	require.NoError(t, err)
	c.eventually("a new log runs", func() bool { return c.runsOn("c", "more") })

	works()
	c.healthy()
	texts, err := c.values("c", "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, texts)
}

func TestALogWhoseFilesTakeForEverToOpenDoesNotBlockClose(t *testing.T) {
	t.Parallel()
	c, disk := hangingCluster(t, 100*time.Millisecond)
	c.stop("c")
	disk.hang.Lock()
	works := sync.OnceFunc(disk.hang.Unlock)
	defer works()
	c.start("c", nil)
	c.eventually("the other log runs", func() bool { return c.runsOn("c", "others") })
	other := c.nodes["c"].logs.Named("others")
	closing, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.nodes["c"].Close(closing), runtime.ErrStalled)
	<-other.Replica.Ended() // it was closed all the same
	works()
	c.stop("c")
	c.start("c", nil)
	c.healthy()
}

// What is done behind is not waited for at all: not for as long either as a disk may
// take that works.
func TestFilesThatTakeForEverToRemoveHoldNothingElseUp(t *testing.T) {
	t.Parallel()
	c, disk := hangingCluster(t, time.Hour)
	disk.hang.Lock()
	works := sync.OnceFunc(disk.hang.Unlock)
	defer works()
	require.NoError(t, c.deleteLog("a", "orders"))
	c.eventually("the log has left", func() bool { return c.nodes["c"].logs.Named("orders") == nil })
	disk.requireUpkeep(c)
	works()
	c.eventually("its files are gone", func() bool {
		replicas, err := disk.ListDirs(c.nodes["c"].files.LogDir(1))
		return err != nil || len(replicas) == 0
	})
}

func TestFilesOfNoLogThatTakeForEverToRemoveHoldNothingElseUp(t *testing.T) {
	t.Parallel()
	c, disk := hangingCluster(t, time.Hour)
	orphan := filepath.Join(c.nodes["c"].files.LogsDir(), "77", "1")
	c.stop("c")
	require.NoError(t, os.MkdirAll(orphan, 0o755))
	disk.hangs.Store(new("/logs/77/"))
	disk.hang.Lock()
	works := sync.OnceFunc(disk.hang.Unlock)
	defer works()
	c.start("c", nil)
	disk.requireUpkeep(c)
	works()
	c.eventually("they are gone", func() bool {
		_, err := os.Stat(filepath.Dir(orphan))
		return os.IsNotExist(err)
	})
	c.healthy()
}

func TestFilesThatTakeForEverToSetAsideHoldNothingElseUp(t *testing.T) {
	t.Parallel()
	c, disk := hangingCluster(t, time.Hour)
	before, _ := c.replicaOf("c", "orders")
	disk.hangs.Store(new("/set-aside/"))
	disk.hang.Lock()
	works := sync.OnceFunc(disk.hang.Unlock)
	defer works()
	c.nodes["c"].logs.Named("orders").Found(core.ErrEndMissing)
	disk.requireUpkeep(c)
	works()
	c.renewed("c", "orders", before)
}

func TestACatalogThatTakesForEverToOpenHoldsNothingElseUp(t *testing.T) {
	t.Parallel()
	c, disk := hangingCluster(t, time.Hour)
	n := c.nodes["c"]
	require.NoError(t, n.catalog.Load().Host().Close(t.Context()))
	disk.hangs.Store(new("/logs/0/"))
	disk.hang.Lock()
	works := sync.OnceFunc(disk.hang.Unlock)
	defer works()
	restarted := make(chan error, 1)
	go func() { restarted <- n.opener.RestartCatalog() }()
	c.eventually("the disk hangs", func() bool { return disk.waiting.Load() > 0 })
	c.eventually("logs can be opened and closed", func() bool {
		free := n.logs.Changing.TryLock()
		if free {
			n.logs.Changing.Unlock()
		}
		return free
	})
	require.Positive(t, disk.waiting.Load())
	works()
	require.NoError(t, <-restarted)
	c.healthy()
}

func TestLeasesEndWhileTheDiskDoesNotSayWhatIsFree(t *testing.T) {
	t.Parallel()
	disk := &hangingDisk{FS: vfs.OS()}
	disk.hangs.Store(new("/nothing/"))
	n, err := Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), Disk: disk, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	create(t, n, "orders", settings.Config{})
	disk.hang.Lock()
	defer disk.hang.Unlock()
	disk.hangs.Store(new(freeSpace))
	require.Eventually(t, func() bool { return disk.waiting.Load() > 0 }, time.Minute, time.Millisecond)
	for term := range 2 {
		grant, err := n.LeaseWriter(t.Context(), anyone, "orders", record.Writer{Name: fmt.Sprint(term), Lease: 1000}, 20*time.Second)
		require.NoError(t, err)
		require.EqualValues(t, term+1, grant.Term, "the first one is silent")
	}
}
