package node

import (
	"fmt"
	"strings"
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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

// What the catalog has no room for is refused before its checkpoint, which is one record, cannot be written:
// then the catalog would never be trimmed again.
func TestTheCatalogRefusesWhatItsCheckpointHasNoRoomFor(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	c := n.catalog.Load()
	host := c.Host()
	c.Most = 100_000
	add := func(values ...string) (end record.Offset) { // as another node would
		_, end, err := host.Replica.Tail().Bounds()
		require.NoError(t, err)
		var b record.Builder
		b.Reset(nil)
		for _, value := range values {
			require.NoError(t, b.Add(record.Record{Value: []byte(value)}))
		}
		batch, err := b.Finish(record.None)
		require.NoError(t, err)
		require.NoError(t, host.AppendAt(t.Context(), end, batch))
		return end
	}
	add(fmt.Sprintf(`{"change":"others","put":[{"id":7,"name":"others","replicas":[{"id":70,"node":99}],"config":{"durability":"","settings":{"a":%q}}}]}`,
		strings.Repeat("x", c.Most-50_000)))
	large := settings.Config{Settings: map[string]string{"a": strings.Repeat("\x01", 4000)}} // six times that in JSON
	create(t, n, "one", large)
	create(t, n, "two", large)
	_, err := n.CreateLog(t.Context(), anyone, "three", large)
	requireReason(t, record.TooLarge, err)

	var sessions []string
	for i := range catalog.CheckpointEvery {
		sessions = append(sessions, fmt.Sprintf(`{"change":"other-%d","sessions":%d}`, i, i+2))
	}
	end := add(sessions...)
	require.Eventually(t, func() bool {
		start, _, err := host.Replica.Tail().Bounds()
		return err == nil && start > end
	}, time.Minute, 10*time.Millisecond, "the catalog is written anew and trimmed")
	_, err = n.CreateLog(t.Context(), anyone, "three", large)
	requireReason(t, record.TooLarge, err)
	require.NoError(t, n.DeleteLog(t.Context(), anyone, "one"))
	create(t, n, "three", large)
}
