package node

import (
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/vfs"
)

// Its files cannot be opened, which says nothing of what is in them: the other
// nodes serve the log, and this one does as soon as it can.
func TestALogThatCannotBeOpenedSendsCallersElsewhereAndIsOpenedLater(t *testing.T) {
	t.Parallel()
	disk := &lockedDisk{FS: vfs.OS()}
	c := newClusterWith(t, func(o *settings.Options) {
		if o.Name == "c" {
			o.Disk = disk
		}
	}, "a", "b", "c")
	_, err := c.nodes["a"].CreateLog(t.Context(), anyone, "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "one")
	c.healthy()
	c.stop("c")
	disk.locked.Store(true)
	c.start("c", nil)
	c.eventually("the log is not open on c", func() bool {
		h := c.nodes["c"].logs.Named("orders")
		return h != nil && h.Problem() != nil
	})
	_, err = c.nodes["c"].Read(t.Context(), anyone, "orders", everything)
	requireReason(t, record.NotLeader, err)
	require.ErrorContains(t, err, "cannot be opened on this node")
	c.eventually("readiness names the log", func() bool {
		err := c.nodes["c"].Ready()
		return err != nil && strings.Contains(err.Error(), "cannot be opened on this node")
	})

	disk.locked.Store(false)
	c.healthy()
	texts, err := c.values("c", "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, texts)
}

// lockedDisk does not let anybody open the files of the first log while it is
// locked.
type lockedDisk struct {
	vfs.FS
	locked atomic.Bool
}

func (d *lockedDisk) Open(name string) (vfs.File, error) {
	if d.locked.Load() && strings.Contains(filepath.ToSlash(name), "/logs/1/") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.FS.Open(name)
}
