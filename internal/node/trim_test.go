package node

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/vfs"
)

func TestATrimIsAnsweredOnceItsNodeShowsIt(t *testing.T) {
	disks := map[string]*heldDisk{}
	c := newClusterWith(t, func(o *settings.Options) {
		disks[o.Name] = &heldDisk{FS: vfs.OS()}
		o.Disk = disks[o.Name]
	}, "a", "b", "c")
	_, err := c.nodes["a"].CreateLog(t.Context(), anyone, "orders", settings.Config{})
	require.NoError(t, err)
	for range 3 {
		c.append("orders", "v")
	}
	leader := c.leader("orders")
	start := func(name string) record.Offset {
		h, refusal := c.nodes[name].Appends.Finder.LogFor(anyone, "orders")
		if refusal != nil {
			return 0
		}
		at, _, err := h.Replica.Tail().Bounds()
		require.NoError(t, err)
		return at
	}

	// The followers' disks are a majority: the trim is decided without the
	// leader's own.
	release := disks[leader].hold()
	shown := make(chan record.Offset, 1)
	go func() {
		_, _, err := c.nodes[leader].Trim(t.Context(), anyone, "orders", 2, false)
		if err != nil {
			t.Error(err)
		}
		shown <- start(leader)
	}()
	c.eventually("the followers trim", func() bool { return start(c.follower("orders")) == 2 })
	release()
	require.EqualValues(t, 2, <-shown)
}

// heldDisk lets no sync end while it is held.
type heldDisk struct {
	vfs.FS
	held sync.RWMutex
}

// hold waits for the syncs under way. The disk is held until release.
func (d *heldDisk) hold() (release func()) {
	d.held.Lock()
	return d.held.Unlock
}

func (d *heldDisk) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return &heldFile{f, d}, err
}

func (d *heldDisk) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return &heldFile{f, d}, err
}

type heldFile struct {
	vfs.File
	disk *heldDisk
}

func (f *heldFile) Datasync() error {
	f.disk.held.RLock()
	defer f.disk.held.RUnlock()
	return f.File.Datasync()
}
