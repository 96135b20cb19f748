package datadir

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/syncdisk"
)

// listDisk counts how often the list is written, and lets a test hold its sync.
type listDisk struct {
	*syncdisk.Disk
	written atomic.Int64
}

func newListDisk() *listDisk { return &listDisk{Disk: &syncdisk.Disk{FS: vfs.OS()}} }

func (d *listDisk) Create(name string) (vfs.File, error) {
	if strings.Contains(name, "replicas.json") {
		d.written.Add(1)
	}
	return d.Disk.Create(name)
}

func waits(l *ReplicaList) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// together makes changes of which all but the first begin while the first is being saved.
func together(t *testing.T, disk *listDisk, l *ReplicaList, changes ...func() error) (errs []error) {
	errs = make([]error, len(changes))
	release := disk.Hold()
	defer release()
	var running sync.WaitGroup
	begin := func(i int) { running.Go(func() { errs[i] = changes[i]() }) }
	begin(0)
	require.Eventually(t, func() bool { return disk.written.Load() == 1 }, time.Minute, time.Millisecond)
	for i := 1; i < len(changes); i++ {
		begin(i)
	}
	require.Eventually(t, func() bool { return waits(l) == len(changes)-1 }, time.Minute, time.Millisecond)
	release()
	running.Wait()
	return errs
}

func TestChangesOfTheListThatWaitAreSavedTogether(t *testing.T) {
	dir, disk := dataDir(t), newListDisk()
	l, err := LoadReplicaList(disk, dir, pointer(Identity{}))
	require.NoError(t, err)
	var changes []func() error
	for id := range uint64(20) {
		changes = append(changes, func() error { return l.Add(100 - id) })
	}
	changes = append(changes, func() error { return l.Remove(100) })
	require.Equal(t, make([]error, 21), together(t, disk, l, changes...))
	require.EqualValues(t, 2, disk.written.Load(), "the first, and all others")
	require.False(t, l.Has(100))
	require.True(t, l.Has(81))

	again, err := LoadReplicaList(disk, dir, pointer(Identity{}))
	require.NoError(t, err)
	require.NoError(t, again.Damaged)
	require.Len(t, again.Made, 19)
	require.True(t, slices.IsSorted(again.Made))
	require.NoError(t, again.Add(81))
	require.EqualValues(t, 2, disk.written.Load(), "what is in it already is not written")
}

func TestAChangeOfTheListThatIsNotSavedIsNotInIt(t *testing.T) {
	disk := newListDisk()
	l, err := LoadReplicaList(disk, dataDir(t), pointer(Identity{}))
	require.NoError(t, err)
	broken := disk.Disk
	errs := together(t, disk, l,
		func() error { broken.Break(syscall.EIO); return l.Add(1) },
		func() error { return l.Add(2) }, func() error { return l.Add(3) })
	for i, err := range errs {
		require.ErrorIs(t, err, syscall.EIO)
		require.False(t, l.Has(uint64(i+1)))
	}
}
