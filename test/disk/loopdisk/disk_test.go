package loopdisk

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// made is a disk, or the end of a test that the machine does not allow: mounting
// takes root. CI has it, and fails where it has not.
func made(t *testing.T) *Disk {
	if err := Available(); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI needs disks of its own: %v", err)
		t.Skipf("no disk can be made here: %v", err)
	}
	d, err := New(filepath.Join(t.TempDir(), "disk"), 32<<20)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func TestAPowerCutTakesWhatWasNotSyncedAndNothingElse(t *testing.T) {
	d := made(t)
	synced, lost := filepath.Join(d.Dir(), "synced"), filepath.Join(d.Dir(), "lost")
	f, err := os.Create(synced)
	require.NoError(t, err)
	_, err = f.WriteString("kept")
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	_, err = f.WriteString(" and not")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(lost, []byte("never synced"), 0o644))

	require.NoError(t, d.Cut())
	_, err = f.WriteString("x")
	require.ErrorIs(t, err, syscall.EIO, "it is dead")
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	require.NoError(t, f.Close())
	require.NoError(t, d.Remount())

	content, err := os.ReadFile(synced)
	require.NoError(t, err)
	require.Equal(t, "kept", string(content))
	require.NoFileExists(t, lost)
}

func TestAFullDiskHasRoomAgainWhenItIsEmptied(t *testing.T) {
	d := made(t)
	require.NoError(t, d.Fill(0))
	require.ErrorIs(t, os.WriteFile(filepath.Join(d.Dir(), "more"), make([]byte, 64<<10), 0o644), syscall.ENOSPC)
	require.NoError(t, d.Empty())
	require.NoError(t, d.Cut())
	require.NoError(t, d.Remount())
	require.NoError(t, os.WriteFile(filepath.Join(d.Dir(), "more"), make([]byte, 64<<10), 0o644))
}

func TestAFrozenDiskHoldsWritersUntilItIsThawed(t *testing.T) {
	d := made(t)
	require.NoError(t, d.Freeze())
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(filepath.Join(d.Dir(), "late"), []byte("late"), 0o644) }()
	select {
	case err := <-written:
		require.Fail(t, "it was written", "%v", err)
	case <-time.After(30 * time.Millisecond): // what gets through may show itself
	}
	require.NoError(t, d.Thaw())
	require.NoError(t, <-written)
}
