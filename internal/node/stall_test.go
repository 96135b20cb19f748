package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/syncdisk"
)

// hanging is a cluster of which the disk of c may hang. The disk of this machine may be busy, so
// the other nodes have more patience.
func hanging(t *testing.T) (*testCluster, *syncdisk.Disk) {
	disk := &syncdisk.Disk{FS: vfs.OS()}
	return several(t, 10, func(o *settings.Options) {
		if o.Name == "c" {
			o.Disk, o.DiskStall = disk, 300*time.Millisecond
		}
	}), disk
}

func TestANodeWhoseDiskHangsHandsOverSaysSoAndCloses(t *testing.T) {
	t.Parallel()
	const stalled = "c"
	c, disk := hanging(t)
	c.transfer("orders", stalled)
	works := disk.Hold()
	defer works()                       // a test that fails must not wait for the disk
	c.append("orders", long(10, 11)...) // on the disks of the others, whoever leads
	c.eventually("another leads", func() bool { return c.leader("orders", stalled) != "" })
	c.append("orders", long(11, 12)...)
	n := c.nodes[stalled]
	c.eventually("the node says so", func() bool {
		err := n.Ready()
		return err != nil && contains(err, "has not finished a write")
	})
	require.True(t, n.spread.Own().Unfit, "it is given no logs to lead")
	c.eventually("the status says so", func() bool {
		status, err := c.nodes[c.leader("orders", stalled)].ClusterStatus(t.Context(), anyone)
		require.NoError(t, err)
		for _, l := range status.Logs {
			for _, r := range l.Replicas {
				if l.Name == "orders" && r.Node == stalled && !l.Healthy && contains(r.Problem, "has not finished a write") {
					return true
				}
			}
		}
		return false
	})
	closing, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, n.Close(closing), runtime.ErrStalled)
	require.Positive(t, c.metrics(stalled)["disk_stalled_logs"])
	works()
	c.stop(stalled)
	c.start(stalled, nil)
	c.healthy()
	c.sameOn("orders", long(0, 12))
}

// A follower's disk takes nothing away from the log, and is reported all the same.
func TestAFollowerWhoseDiskHangsSaysSo(t *testing.T) {
	t.Parallel()
	const follower = "c"
	c, disk := hanging(t)
	c.transfer("orders", "a")
	works := disk.Hold()
	defer works()
	c.append("orders", long(10, 11)...)
	c.eventually("the node says so", func() bool {
		err := c.nodes[follower].Ready()
		return err != nil && contains(err, "has not finished a write") && c.metrics(follower)["disk_stalled_logs"] > 0
	})
	c.append("orders", long(11, 12)...)
	works()
	c.eventually("it is well again", func() bool {
		return c.nodes[follower].Ready() == nil && c.metrics(follower)["disk_stalled_logs"] == 0
	})
	c.healthy()
	c.sameOn("orders", long(0, 12))
}

// The others have stored the grant, so it counts, and the disk of the leader has not.
func TestAGrantOfTheWriterLeaseThatItsNodeHasNotAppliedNamesItsHolder(t *testing.T) {
	t.Parallel()
	disk := &syncdisk.Disk{FS: vfs.OS()}
	c := several(t, 10, func(o *settings.Options) {
		if o.Name == "c" {
			o.Disk = disk
		}
	})
	c.transfer("orders", "c")
	works := disk.Hold()
	defer works()
	w := record.Writer{Name: "first", Payload: []byte("10.0.0.1:80"), Lease: 3_600_000}
	began := time.Now()
	grant, err := c.nodes["c"].LeaseWriter(t.Context(), anyone, "orders", w, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, grant.Term)
	require.Equal(t, grant.Term, grant.State.Holder.Term)
	require.Equal(t, w, grant.State.Holder.Writer)
	require.GreaterOrEqual(t, grant.State.Holder.Leased, began.UnixMilli())
	require.Less(t, grant.State.Left, int64(w.Lease), "the lease passes while it waits")
	require.GreaterOrEqual(t, grant.State.Left, int64(w.Lease)-time.Since(began).Milliseconds())
}

func contains(what any, text string) bool { return strings.Contains(fmt.Sprint(what), text) }
