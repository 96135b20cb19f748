package faultdisk

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func newDisk(t *testing.T) *Disk {
	d := New(1)
	require.NoError(t, d.MkdirAll("a/b"))
	return d
}

// put writes a file; synced reports whether its bytes are, nameSynced its name.
func put(t *testing.T, d *Disk, name, content string, synced, nameSynced bool) {
	f, err := d.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	require.NoError(t, err)
	if synced {
		require.NoError(t, f.Datasync())
	}
	if nameSynced {
		require.NoError(t, d.SyncDir("a/b"))
	}
}

func TestAPowerCutForgetsWhatWasNotSynced(t *testing.T) {
	d := newDisk(t)
	put(t, d, "a/b/bytes", "x", false, true)
	put(t, d, "a/b/name", "x", true, false)
	d.PowerCut(Nothing)
	require.Equal(t, []string{"a/b/bytes"}, d.Names())
	require.Empty(t, d.Content("a/b/bytes"))
}

func TestAPowerCutMayKeepEverything(t *testing.T) {
	d := newDisk(t)
	put(t, d, "a/b/file", "x", false, false)
	require.NoError(t, d.Rename("a/b/file", "a/b/moved"))
	d.PowerCut(Everything)
	require.Equal(t, []string{"a/b/moved"}, d.Names())
	require.Equal(t, "x", string(d.Content("a/b/moved")))
}

func TestAPowerCutTearsAtSectors(t *testing.T) {
	torn := false
	for seed := range uint64(20) {
		d := New(seed)
		require.NoError(t, d.MkdirAll("a/b"))
		put(t, d, "a/b/file", string(make([]byte, 4096)), true, true)
		f, err := d.Open("a/b/file")
		require.NoError(t, err)
		ones := make([]byte, 4000)
		for i := range ones {
			ones[i] = 1
		}
		_, err = f.WriteAt(ones, 50)
		require.NoError(t, err)
		d.PowerCut(Some)
		content, changes := d.Content("a/b/file"), 0
		for i := 51; i < 4049; i++ {
			if content[i] != content[i-1] {
				require.Zero(t, i%sector)
				changes++
			}
		}
		torn = torn || changes > 1
	}
	require.True(t, torn)
}

func TestAFailedSyncLosesTheBytesForGood(t *testing.T) {
	d := newDisk(t)
	put(t, d, "a/b/file", "", true, true)
	f, err := d.Open("a/b/file")
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("x"), 0)
	require.NoError(t, err)
	d.FailNth(Datasync, 1, syscall.EIO)
	require.ErrorIs(t, f.Datasync(), syscall.EIO)
	require.NoError(t, f.Datasync(), "the kernel reports it once")
	require.Equal(t, "x", string(d.Content("a/b/file")))
	d.PowerCut(Everything)
	require.Empty(t, d.Content("a/b/file"))
}

func TestNothingHappensAfterTheStop(t *testing.T) {
	d := newDisk(t)
	put(t, d, "a/b/file", "x", true, true)
	d.StopAt(1)
	require.ErrorIs(t, d.Remove("a/b/file"), ErrStopped)
	_, err := d.Open("a/b/file")
	require.ErrorIs(t, err, ErrStopped)
	require.True(t, d.Stopped())
	d.PowerCut(Nothing)
	_, err = d.Open("a/b/file")
	require.NoError(t, err)
}

func TestOpenFilesDieWithTheProcess(t *testing.T) {
	d := newDisk(t)
	f, err := d.Create("a/b/file")
	require.NoError(t, err)
	lock, err := d.Lock("a/b/lock")
	require.NoError(t, err)
	_, err = d.Lock("a/b/lock")
	require.ErrorIs(t, err, syscall.EWOULDBLOCK)
	d.Restart()
	_, err = f.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, ErrStopped)
	_, err = d.Lock("a/b/lock")
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

func TestAFullDiskRefusesGrowthOnly(t *testing.T) {
	d := newDisk(t)
	put(t, d, "a/b/file", "1234", true, true)
	d.Capacity(5)
	free, total, err := d.Free("a/b")
	require.NoError(t, err)
	require.Equal(t, int64(1), free)
	require.Equal(t, int64(5), total)
	f, err := d.Open("a/b/file")
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("abcdef"), 0)
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = f.WriteAt([]byte("abcd"), 0)
	require.NoError(t, err)
}

func TestNamesAreLikeOnARealDisk(t *testing.T) {
	d := newDisk(t)
	put(t, d, "a/b/file", "x", true, true)
	_, err := d.Create("a/b/file")
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = d.Create("nowhere/file")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, d.Remove("a/b/none"), fs.ErrNotExist)
	_, err = d.ReadFile("a/b/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	dirs, err := d.ListDirs("a")
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, dirs)
	require.NoError(t, d.RemoveAll("a"))
	require.Empty(t, d.Names())
}

func TestAnOldCopyThatWasPutBackStays(t *testing.T) {
	d := newDisk(t)
	put(t, d, "a/b/file", "new", true, false)
	d.Replace("a/b/file", []byte("old"))
	d.Replace("a/b/other", []byte("x"))
	f, err := d.Open("a/b/file")
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("O"), 0)
	require.NoError(t, err)
	require.Equal(t, "Old", string(d.Content("a/b/file")))
	d.PowerCut(Nothing)
	require.Equal(t, []string{"a/b/file", "a/b/other"}, d.Names())
	require.Equal(t, "old", string(d.Content("a/b/file")))
}

func TestAFileThatWasLostDoesNotComeBack(t *testing.T) {
	d := newDisk(t)
	put(t, d, "a/b/durable", "x", true, true)
	put(t, d, "a/b/fresh", "x", true, false)
	d.Lose("a/b/durable")
	d.Lose("a/b/fresh")
	d.Lose("a/b/none")
	require.Empty(t, d.Names())
	d.PowerCut(Everything)
	require.Empty(t, d.Names())
}

func TestAFlippedBitStaysWhenTheFileIsSynced(t *testing.T) {
	d := newDisk(t)
	put(t, d, "a/b/file", "x", false, true)
	d.FlipBit("a/b/file", 0)
	f, err := d.Open("a/b/file")
	require.NoError(t, err)
	require.NoError(t, f.Datasync())
	d.PowerCut(Nothing)
	require.Equal(t, "y", string(d.Content("a/b/file")))
}

func TestOtherThingsHappenBetweenAWriteAndItsSync(t *testing.T) {
	d := New(1)
	f, err := d.Create("a")
	require.NoError(t, err)
	require.NoError(t, f.Datasync())
	require.NoError(t, d.SyncDir("."))
	require.NoError(t, d.Rename("a", "b"))
	_, err = f.WriteAt([]byte("new"), 0)
	require.NoError(t, err)
	d.BeforeSync(func(name string) error {
		require.Equal(t, "b", name)
		require.Equal(t, "new", string(d.Content("b")), "it is seen")
		d.Halt()
		return ErrStopped
	})
	require.ErrorIs(t, f.Datasync(), ErrStopped)
	require.True(t, d.Stopped())
	d.BeforeSync(nil)
	d.PowerCut(Nothing)
	require.Empty(t, d.Content("a"), "and not durable")
}

func TestFaultsThatAreTakenBackDoNotCome(t *testing.T) {
	d := New(1)
	d.FailNth(Create, 1, syscall.EIO)
	d.StopAt(1)
	d.Disarm()
	_, err := d.Create("a")
	require.NoError(t, err)
	require.False(t, d.Stopped())
	require.False(t, d.Armed())
}

// A file that is renamed and then replaced by another does not come back under its old
// name once the directory was synced.
func TestAFileThatReplacesARenamedOneLeavesNoOldName(t *testing.T) {
	d := newDisk(t)
	put(t, d, "a/b/new", "x", true, true)
	require.NoError(t, d.Rename("a/b/new", "a/b/file"))
	d.Replace("a/b/file", []byte("copy"))
	require.NoError(t, d.SyncDir("a/b"))
	d.PowerCut(Nothing)
	require.Equal(t, []string{"a/b/file"}, d.Names())
	require.Equal(t, "copy", string(d.Content("a/b/file")))
}
