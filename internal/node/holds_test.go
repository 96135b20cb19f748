package node

import (
	"context"
	"errors"
	"strandline.dev/internal/node/verbs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

func refusalOf(t *testing.T, err error) *record.Refusal {
	t.Helper()
	var r *record.Refusal
	require.True(t, errors.As(err, &r), "%v", err)
	return r
}

func TestAHoldKeepsRecordsFromTrimsUntilItIsReleased(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	create(t, n, "orders", settings.Config{})
	for _, value := range []string{"a", "b", "c", "d"} {
		mustAppend(t, n, "orders", value)
	}
	backup := record.Hold{Name: "backup", Offset: 1, Owner: "ops", Pointer: []byte("s3://1")}
	place, err := n.SetHold(t.Context(), anyone, "orders", backup, reading.FromOffset)
	require.NoError(t, err)
	require.Equal(t, []record.Offset{1, 4}, []record.Offset{place.Offset, place.End})

	_, _, err = n.Trim(t.Context(), anyone, "orders", 2, false)
	held := refusalOf(t, err)
	require.Equal(t, record.Held, held.Reason)
	require.Equal(t, &backup, held.Hold)

	require.NoError(t, n.Close(t.Context()))
	n = open(t, dir)
	_, err = n.Info(t.Context(), anyone, "orders")
	require.NoError(t, err)
	holds, err := n.KnownHolds(anyone, "orders")
	require.NoError(t, err)
	require.Len(t, holds, 1)
	require.Equal(t, backup, holds[0].Hold)
	require.Positive(t, holds[0].Kept)

	_, _, err = n.Trim(t.Context(), anyone, "orders", 1, false)
	require.NoError(t, err, "up to the hold")
	moved := record.Hold{Name: "backup", Offset: 3, Pointer: []byte("s3://3")}
	_, err = n.SetHold(t.Context(), anyone, "orders", moved, reading.FromOffset)
	require.NoError(t, err)
	start, _, err := n.Trim(t.Context(), anyone, "orders", 3, false)
	require.NoError(t, err)
	require.EqualValues(t, 3, start)

	// Who comes too late gets the pointer, and finds what follows it.
	_, err = n.Read(t.Context(), anyone, "orders", reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: 1}, Until: reading.NoOffset})
	late := refusalOf(t, err)
	require.Equal(t, record.OffsetTrimmed, late.Reason)
	require.Equal(t, &moved, late.Hold)
	require.Equal(t, []string{"3:d"}, read(t, n, "orders", reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: late.Hold.Offset}, Until: reading.NoOffset}))
	_, err = n.SetHold(t.Context(), anyone, "orders", backup, reading.FromOffset)
	requireReason(t, record.OffsetTrimmed, err)

	require.NoError(t, n.ReleaseHold(t.Context(), anyone, "orders", "backup"))
	requireReason(t, record.HoldNotFound, n.ReleaseHold(t.Context(), anyone, "orders", "backup"))
	_, _, err = n.Trim(t.Context(), anyone, "orders", 4, false)
	require.NoError(t, err)
}

func TestAHoldIsRefusedThatNoLogTakes(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	for _, row := range []struct {
		log    string
		hold   record.Hold
		reason record.Reason
	}{
		{"orders", record.Hold{}, record.Invalid},
		{"orders", record.Hold{Name: "a", Lease: 999}, record.Invalid},
		{"orders", record.Hold{Name: "a", Pointer: make([]byte, record.MaxHoldPointer+1)}, record.TooLarge},
		{"orders", record.Hold{Name: "a", Offset: 1}, record.OffsetBeyondEnd},
		{verbs.CatalogLog, record.Hold{Name: "a"}, record.Invalid},
		{"absent", record.Hold{Name: "a"}, record.LogNotFound},
	} {
		_, err := n.SetHold(t.Context(), anyone, row.log, row.hold, reading.FromOffset)
		requireReason(t, row.reason, err)
	}
	requireReason(t, record.HoldNotFound, n.KeepHold(t.Context(), anyone, "orders", "a"))
}

// A leader of before knows nothing that ends a hold.
func TestHoldsSurviveAnotherLeaderAndEndWithTheirLog(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "v")
	c.append("orders", "w")
	require.NoError(t, c.asked("orders", func(leader *Node) error {
		_, err := leader.SetHold(t.Context(), anyone, "orders", record.Hold{Name: "backup", Offset: 1, Pointer: []byte("p")}, reading.FromOffset)
		return err
	}))
	next := c.follower("orders")
	c.transfer("orders", next)
	requireReason(t, record.Held, c.asked("orders", func(leader *Node) error {
		_, _, err := leader.Trim(t.Context(), anyone, "orders", 2, false)
		return err
	}))

	// A log that is deleted and created again has none.
	require.NoError(t, c.deleteLog(next, "orders"))
	_, err = c.createLog(next, "orders", settings.Config{})
	require.NoError(t, err)
	require.NoError(t, c.asked("orders", func(leader *Node) error {
		holds, err := leader.KnownHolds(anyone, "orders")
		require.Empty(t, holds)
		return err
	}))
}

// Replicas that are created later begin with an installed snapshot. What has set a hold that still
// stands is never trimmed; what has set one that was released later is, and the release is folded
// into what the snapshot says.
func TestHoldsMoveToOtherNodesWithTheirLog(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{Replicas: 1})
	require.NoError(t, err)
	first := c.leader("orders")
	store := c.nodes[first].logs.Named("orders").Store
	set := func(h record.Hold) {
		require.NoError(t, c.asked("orders", func(leader *Node) error {
			_, err := leader.SetHold(t.Context(), anyone, "orders", h, reading.FromOffset)
			return err
		}))
	}
	set(record.Hold{Name: "released", Offset: 0})
	setting := store.LastIndex()
	for range 2 {
		c.append("orders", string(make([]byte, 700<<10))) // a segment
	}
	hold := record.Hold{Name: "backup", Offset: 2, Owner: "ops", Lease: 3600_000, MaxBytes: 1 << 40, MaxAge: 1 << 40, Pointer: make([]byte, record.MaxHoldPointer)}
	set(hold)
	require.NoError(t, c.nodes[first].ReleaseHold(t.Context(), anyone, "orders", "released"))
	require.NoError(t, c.trim("orders", 2))
	c.append("orders", "held")
	c.eventually("the entry that has set the first hold is gone", func() bool { return store.FirstIndex() > setting })

	require.NoError(t, c.retried("it is configured", func() error {
		_, err := c.nodes["a"].ConfigureLog(t.Context(), anyone, "orders", settings.Config{Replicas: 3})
		return err
	}))
	c.eventually("all nodes know the hold", func() bool {
		for _, n := range c.nodes {
			holds, err := n.KnownHolds(anyone, "orders")
			if err != nil || len(holds) != 1 || holds[0].Name != hold.Name {
				return false // it may have folded no more than the snapshot yet
			}
			require.Equal(t, hold, holds[0].Hold)
		}
		return c.holders("orders") == 3
	})
	for name, n := range c.nodes {
		require.Greater(t, n.logs.Named("orders").Store.FirstIndex(), setting, "%s has no snapshot installed", name)
	}
	c.healthy()
	next := map[string]string{"a": "b", "b": "c", "c": "a"}[first]
	err = c.retried("one that got a snapshot answers", func() error {
		c.transfer("orders", next)
		_, _, err := c.nodes[next].Trim(t.Context(), anyone, "orders", 3, false)
		return err
	})
	require.Equal(t, &hold, requireReason(t, record.Held, err).Hold)
	_, err = c.nodes[next].Read(t.Context(), anyone, "orders", reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: 0}, Until: reading.NoOffset})
	require.Equal(t, &hold, requireReason(t, record.OffsetTrimmed, err).Hold)
}

// The least lease is a second, and a tick of the replica 50 ms.
func TestALeaseEndsAHoldUnlessItIsKept(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	_, err := n.SetHold(t.Context(), anyone, "orders", record.Hold{Name: "short", Lease: 1000}, reading.FromTail)
	require.NoError(t, err)
	_, err = n.SetHold(t.Context(), anyone, "orders", record.Hold{Name: "day", Lease: 24 * 3600 * 1000}, reading.FromTail)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		holds, err := n.KnownHolds(anyone, "orders")
		return err == nil && len(holds) == 1
	}, time.Minute, 10*time.Millisecond)
	requireReason(t, record.HoldNotFound, n.KeepHold(t.Context(), anyone, "orders", "short"))
	require.NoError(t, n.KeepHold(t.Context(), anyone, "orders", "day"))
}

func TestRetentionStopsAtAHoldUntilTheHoldKeepsMoreThanItMay(t *testing.T) {
	t.Parallel()
	said := new(lines)
	n, err := Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), SegmentBytes: 1 << 20, Logger: said.logger()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	create(t, n, "wal", settings.Config{RetentionBytes: 1})
	mustAppend(t, n, "wal", "a")
	mustAppend(t, n, "wal", "b")
	start := func() record.Offset {
		b, err := n.Bounds(anyone, "wal")
		require.NoError(t, err)
		return b.Start
	}
	_, err = n.SetHold(t.Context(), anyone, "wal", record.Hold{Name: "bounded", Owner: "ops", MaxBytes: 20 << 10, Offset: 2}, reading.FromOffset)
	require.NoError(t, err)
	mustAppend(t, n, "wal", "c")
	require.Eventually(t, func() bool { return start() == 2 }, time.Minute, 10*time.Millisecond, "retention goes as far as the hold")

	collector, err := n.LogMetrics([]string{"wal"})
	require.NoError(t, err)
	of := gathered(t, collector)
	require.EqualValues(t, 2, of["log_hold_offset{hold=bounded,log=wal}"])
	require.Positive(t, of["log_hold_kept_bytes{hold=bounded,log=wal}"])
	require.Zero(t, gathered(t, n.Metrics())["broken_holds_total"])

	for range 3 {
		mustAppend(t, n, "wal", string(make([]byte, 10<<10)))
	}
	require.Eventually(t, func() bool { return start() == 6 }, time.Minute, 10*time.Millisecond, "what it kept goes")
	require.EqualValues(t, 1, gathered(t, n.Metrics())["broken_holds_total"])
	require.Equal(t, 1, said.count("level=WARN msg=\"broke a hold that kept more than it may\" log=wal hold=bounded owner=ops offset=2 "))
	requireReason(t, record.HoldNotFound, n.KeepHold(t.Context(), anyone, "wal", "bounded"))

	_, err = n.SetHold(t.Context(), anyone, "wal", record.Hold{Name: "old", MaxAge: 1}, reading.FromTail)
	require.NoError(t, err)
	mustAppend(t, n, "wal", "d")
	require.Eventually(t, func() bool { return start() == 7 }, time.Minute, 10*time.Millisecond, "so it does once it is too old")
}
