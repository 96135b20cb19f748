package segment_test

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/faultdisk"
)

// crowdedFS opens nothing while the process has too many files open.
type crowdedFS struct {
	vfs.FS
	crowded bool
}

func (c *crowdedFS) refuse(name string) error {
	if c.crowded {
		return &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	return nil
}

func (c *crowdedFS) Create(name string) (vfs.File, error) {
	if err := c.refuse(name); err != nil {
		return nil, err
	}
	return c.FS.Create(name)
}

func (c *crowdedFS) Open(name string) (vfs.File, error) {
	if err := c.refuse(name); err != nil {
		return nil, err
	}
	return c.FS.Open(name)
}

func (c *crowdedFS) OpenDir(name string) (vfs.Directory, error) {
	if err := c.refuse(name); err != nil {
		return nil, err
	}
	return c.FS.OpenDir(name)
}

func (c *crowdedFS) SyncDir(name string) error {
	if err := c.refuse(name); err != nil {
		return err
	}
	return c.FS.SyncDir(name)
}

func (c *crowdedFS) ReadFile(name string) ([]byte, error) {
	if err := c.refuse(name); err != nil {
		return nil, err
	}
	return c.FS.ReadFile(name)
}

// A log that is open needs no further descriptor to take appends and votes, to
// fall idle, and to begin its next segment.
func TestALogWritesOnWhenTheProcessHasTooManyFilesOpen(t *testing.T) {
	for _, reopened := range []bool{false, true} {
		disk := faultdisk.New(7)
		crowd := &crowdedFS{FS: disk}
		s, err := store.Create(crowd, dir, options(disk), bootstrap())
		require.NoError(t, err)
		if reopened {
			require.NoError(t, s.Close())
			s, err = repair.Open(crowd, dir, options(disk))
			require.NoError(t, err)
			_, err = s.Prepare() // as the filler does from then on
			require.NoError(t, err)
		}
		crowd.crowded = true
		next := uint64(2)
		for rolled := false; !rolled; next++ {
			rolled = len(write(t, s, synced(entry(next, 1, 1000))).Rolled) > 0
		}
		write(t, s, promise(4, 2))
		write(t, s, synced(entry(next, 4, 1000)))
		require.NoError(t, s.Mark())
		crowd.crowded = false
		require.NoError(t, s.Close())
		s = open(t, disk)
		require.Equal(t, next, s.LastIndex())
		require.Equal(t, uint64(4), s.HardState().Term)
		require.NoError(t, s.Close())
	}
}
