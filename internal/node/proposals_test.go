package node

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

// whileDeciding runs callers while somebody else makes a change, so that all of
// them wait, and returns what they got.
func whileDeciding(t *testing.T, n *Node, callers ...func() error) (errs []error) {
	t.Helper()
	c := n.catalog.Load()
	c.Turn <- struct{}{}
	errs = make([]error, len(callers))
	var running sync.WaitGroup
	for i, call := range callers {
		running.Go(func() { errs[i] = call() })
		// One after the other, so that the order is known.
		require.Eventually(t, func() bool {
			c.Waiting.Mu.Lock()
			defer c.Waiting.Mu.Unlock()
			return len(c.Waiting.List) == i+1
		}, time.Minute, time.Millisecond)
	}
	<-c.Turn
	running.Wait()
	return errs
}

func TestChangesThatWaitShareOneAppend(t *testing.T) {
	n := open(t, t.TempDir())
	var callers []func() error
	for i := range 50 {
		callers = append(callers, func() error {
			_, err := n.CreateLog(t.Context(), anyone, fmt.Sprintf("log-%d", i), settings.Config{})
			return err
		})
	}
	log := n.catalog.Load().Host().Store
	before := log.LastIndex()
	for _, err := range whileDeciding(t, n, callers...) {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, log.LastIndex(), before+2, "one entry for all, beside one of the leader's own")
	infos, err := n.ListLogs(t.Context(), anyone, false, nil)
	require.NoError(t, err)
	require.Len(t, infos, 50)
	seen := map[uint64]bool{}
	for _, i := range infos {
		require.False(t, seen[i.ID], "two logs have the id %d", i.ID)
		seen[i.ID] = true
	}
}

// Each is decided as if those before it had landed.
func TestOfChangesThatContradictEachOtherTheFirstCounts(t *testing.T) {
	n := open(t, t.TempDir())
	create(t, n, "old", settings.Config{})
	makeLog := func(name string) func() error {
		return func() error {
			_, err := n.CreateLog(t.Context(), anyone, name, settings.Config{})
			return err
		}
	}
	errs := whileDeciding(t, n,
		makeLog("new"), makeLog("new"),
		func() error { return n.DeleteLog(t.Context(), anyone, "old") },
		func() error { return n.DeleteLog(t.Context(), anyone, "old") },
		makeLog("old"),
	)
	require.NoError(t, errs[0])
	requireReason(t, record.LogExists, errs[1])
	require.NoError(t, errs[2])
	requireReason(t, record.LogNotFound, errs[3])
	require.NoError(t, errs[4])
	mustAppend(t, n, "old", "of the second life")
	require.Equal(t, []string{"0:of the second life"}, read(t, n, "old", everything))
}

func TestManyMoreChangesThanAreMadeTogetherAreAllMade(t *testing.T) {
	n := open(t, t.TempDir())
	var callers []func() error
	for range 2*catalog.MaxTogether + 10 {
		callers = append(callers, func() error {
			_, err := n.catalog.Load().ReserveSessions(t.Context(), 1, time.Minute)
			return err
		})
	}
	log := n.catalog.Load().Host().Store
	before := log.LastIndex()
	for _, err := range whileDeciding(t, n, callers...) {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, log.LastIndex(), before+4)
	first, err := n.catalog.Load().ReserveSessions(t.Context(), 1, time.Minute)
	require.NoError(t, err)
	require.Equal(t, record.SessionID(1+2*catalog.MaxTogether+10), first, "each has ids of its own")
}
