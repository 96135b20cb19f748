package node

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/disk/faultdisk"
)

var everyFault = flag.Bool("node.everyfault", false, "let every single write and sync of a run fail, and not a sample of them")

// long is a run in which the log begins new segments, is trimmed and recycles
// files. It ends at the first error of each client.
func (h *history) long(t *testing.T, n *Node) {
	h.short(t, n, 60)
	if info, err := n.KnownInfo(anyone, "orders"); err == nil && info.End > 20 {
		h.trimmed = info.End - 20
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, _ = n.Trim(ctx, anyone, "orders", h.trimmed, false) // it may fail, as all else
	}
	h.short(t, n, 60)
}

func newLongHistory() *history {
	h := newHistory()
	for _, c := range h.clients {
		c.prefix = strings.Repeat(c.prefix, 1500)
	}
	return h
}

func (h *history) acked() (count int) {
	for _, c := range h.clients {
		count += len(c.acked)
	}
	return count
}

// One after the other, each write and each sync of a run fails once. The log that
// met it acknowledges nothing more; what it had acknowledged is there after a
// power cut, and it continues. go test ./internal/node -run EveryFailed
// -node.everyfault -v takes all of them.
func TestEveryFailedWriteAndSyncStopsTheLogAndARestartGoesOn(t *testing.T) {
	for _, op := range []faultdisk.Op{faultdisk.Create, faultdisk.Write, faultdisk.Datasync, faultdisk.SyncDir} {
		for _, failure := range []error{syscall.EIO, syscall.ENOSPC} {
			t.Run(fmt.Sprintf("%s %v", op, failure), func(t *testing.T) {
				t.Parallel()
				disk := faultdisk.New(1)
				n, err := openOn(disk)
				require.NoError(t, err)
				newLongHistory().long(t, n)
				require.NoError(t, n.Close(t.Context()))
				calls, sum := disk.Calls(op), fateOfFaults{}
				stride := 1
				if !*everyFault {
					stride = max(1, calls/8)
				}
				for nth := 1; nth <= calls; nth += stride {
					sum.add(failAt(t, op, nth, failure))
				}
				t.Logf("%d calls: %+v", calls, sum)
				require.Positive(t, sum.Stopped)
			})
		}
	}
}

// fateOfFaults counts what single failures have led to.
type fateOfFaults struct {
	NotOpened int // the node did not start
	Stopped   int // the log stopped, and says so
	Harmless  int // it continued, as it could: the failure met a spare, or another log
	NotCome   int // the run had ended before: it is not the same every time
}

func (f *fateOfFaults) add(o fateOfFaults) {
	f.NotOpened += o.NotOpened
	f.Stopped += o.Stopped
	f.Harmless += o.Harmless
	f.NotCome += o.NotCome
}

func failAt(t *testing.T, op faultdisk.Op, nth int, failure error) (fate fateOfFaults) {
	at := fmt.Sprintf("%s %d failed with %v", op, nth, failure)
	disk := faultdisk.New(uint64(nth))
	disk.FailNth(op, nth, failure)
	h := newLongHistory()
	n, err := openOn(disk)
	if err != nil {
		require.ErrorContains(t, err, failure.Error(), at)
		fate.NotOpened++
	} else {
		h.long(t, n)
		info, err := n.KnownInfo(anyone, "orders")
		switch {
		case disk.Armed():
			fate.NotCome++
		case err == nil && info.Problem == "":
			fate.Harmless++
		default:
			fate.Stopped++
			before := h.acked()
			h.short(t, n, 2)
			require.Equal(t, before, h.acked(), "%s, and the log acknowledges appends", at)
			require.Error(t, n.Ready(), at)
		}
		_ = n.Close(canceled())
	}

	disk.PowerCut(faultdisk.Nothing)
	n, err = openOn(disk)
	require.NoError(t, err, at)
	h.check(t, n)
	h.short(t, n, 2)
	h.check(t, n)
	for _, c := range h.clients {
		require.Empty(t, c.open, "%s, and after the restart an append is not answered", at)
	}
	require.NoError(t, n.Close(t.Context()))
	return fate
}
