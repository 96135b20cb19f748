package statemachine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/statemachine"
)

// taken collects the snapshots of a replica.
func taken(results chan statemachine.SnapshotResult) statemachine.Option {
	return statemachine.WithHooks(statemachine.Hooks{Snapshot: func(s statemachine.SnapshotResult) { results <- s }})
}

func (e *cluster) holds() []client.HoldInfo { return e.info().Holds }

func names(t testing.TB, d statemachine.Directory) []string {
	t.Helper()
	all, err := d.List(t.Context())
	require.NoError(t, err)
	slices.Sort(all)
	return all
}

func TestSnapshotsMoveTheHoldAndItsPointerAndTrimTheLog(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	d := statemachine.Files(filepath.Join(t.TempDir(), "snapshots"))
	results := make(chan statemachine.SnapshotResult, 10)
	r := e.open(newCounters(), statemachine.WithSnapshots(d), statemachine.WithSchedule(10, 0), statemachine.WithTrim(), taken(results),
		statemachine.WithHold(client.HoldInfo{Name: "view", Owner: "ops"}))
	holds := e.holds()
	require.Len(t, holds, 1)
	require.Equal(t, "view", holds[0].Name)
	require.Zero(t, holds[0].Offset, "the records stay until there is a snapshot")
	var offsets []int64
	for range 3 {
		last := int64(0)
		if len(offsets) > 0 {
			last = offsets[len(offsets)-1]
		}
		for r.Offset() < last+15 { // it is due after 10 to 15
			e.propose(r, "a")
		}
		one := <-results
		require.NoError(t, one.Err)
		require.Positive(t, one.Bytes)
		offsets = append(offsets, one.Offset)
	}
	found := names(t, d)
	require.Len(t, found, 2, "the newest two are kept")
	holds = e.holds()
	require.Equal(t, offsets[1], holds[0].Offset)
	require.Equal(t, "ops", holds[0].Owner)
	require.Equal(t, d.Location(found[0]), string(holds[0].Pointer), "the pointer is to the snapshot at the offset of the hold")
	require.FileExists(t, string(holds[0].Pointer))
	require.Equal(t, offsets[1], e.info().Start)
	stats := r.Stats()
	require.Equal(t, offsets[2], stats.Snapshot)
	require.EqualValues(t, 3, stats.Snapshots)
	require.Zero(t, stats.SnapshotFailures)

	// A new replica needs no more than the newest snapshot and what follows it.
	state := newCounters()
	other := e.open(state, statemachine.WithSnapshots(d))
	require.NoError(t, r.Query(t.Context(), statemachine.Linearizable, func() {}))
	require.Equal(t, r.Offset(), other.Offset())
	require.EqualValues(t, r.Offset(), state.Counts["a"])
	require.Equal(t, r.Offset()-offsets[2], other.Stats().Records)
}

func TestASnapshotIsTakenWhenItIsTime(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	results := make(chan statemachine.SnapshotResult, 10)
	r := e.open(newCounters(), statemachine.WithSnapshots(statemachine.Files(t.TempDir())), statemachine.WithSchedule(0, 50*time.Millisecond), taken(results))
	e.propose(r, "a")
	one := <-results
	require.NoError(t, one.Err)
	require.EqualValues(t, 1, one.Offset)
}

// The hold of others keeps what this replica would trim.
func TestATrimLeavesWhatOthersHold(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	results := make(chan statemachine.SnapshotResult, 10)
	r := e.open(newCounters(), statemachine.WithSnapshots(statemachine.Files(t.TempDir())), statemachine.WithSchedule(10, 0), statemachine.WithTrim(),
		statemachine.WithKeptSnapshots(1), taken(results))
	for range 4 {
		e.propose(r, "a")
	}
	_, _, err := e.c.Admin().SetHold(t.Context(), logName, client.HoldInfo{Name: "backup", Offset: 3})
	require.NoError(t, err)
	for range 11 {
		e.propose(r, "a")
	}
	one := <-results // it is due after 10 to 15
	require.NoError(t, one.Err)
	require.EqualValues(t, 3, e.info().Start)
}

// store fills a directory with snapshots of a log of n records, of which it keeps all.
func (e *cluster) store(d statemachine.Directory, n int) {
	e.t.Helper()
	results := make(chan statemachine.SnapshotResult, 1)
	r, err := statemachine.Open(e.t.Context(), e.c, logName, newCounters(), statemachine.WithSnapshots(d), statemachine.WithSchedule(1, 0),
		statemachine.WithKeptSnapshots(100), taken(results))
	require.NoError(e.t, err)
	for range n {
		e.propose(r, "a")
		one := <-results
		require.NoError(e.t, one.Err)
	}
	e.close(r)
}

func TestABootUsesAnOlderSnapshotIfTheNewestIsDamaged(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	folder := t.TempDir()
	d := statemachine.Files(folder)
	e.store(d, 3)
	found := names(t, d)
	newest := filepath.Join(folder, found[2])
	whole, err := os.ReadFile(newest)
	require.NoError(t, err)
	for name, damage := range map[string]func([]byte) []byte{
		"a byte differs": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"it is short":    func(b []byte) []byte { return b[:len(b)-7] },
		"it is empty":    func(b []byte) []byte { return nil },
		"it is longer":   func(b []byte) []byte { return append(b, 0) },
	} {
		require.NoError(t, os.WriteFile(newest, damage(slices.Clone(whole)), 0o600))
		var trouble error
		state := newCounters()
		r := e.open(state, statemachine.WithSnapshots(d), statemachine.WithSchedule(0, 0),
			statemachine.WithHooks(statemachine.Hooks{Trouble: func(err error) { trouble = errors.Join(trouble, err) }}))
		require.Equal(t, 3, state.Counts["a"], name)
		require.EqualValues(t, 1, r.Stats().Records, "%s: it boots from the snapshot before", name)
		require.ErrorContains(t, trouble, "the snapshot is damaged", name)
	}
	// Where no snapshot can be read, a state of which a part was restored is no empty state.
	for _, name := range found {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), whole[:len(whole)-1], 0o600))
	}
	_, err = statemachine.Open(t.Context(), e.c, logName, newCounters(), statemachine.WithSnapshots(d), statemachine.WithSchedule(0, 0))
	require.ErrorIs(t, err, statemachine.ErrNoSnapshot)
	require.ErrorContains(t, err, "the log is whole, but a part of a damaged snapshot is in the machine")
	require.NotContains(t, err.Error(), "are trimmed")
}

func TestABootSaysThatRecordsAreMissing(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	r := e.open(newCounters())
	for range 5 {
		e.propose(r, "a")
	}
	_, _, err := e.c.Admin().Trim(t.Context(), logName, 3, false)
	require.NoError(t, err)
	_, err = statemachine.Open(t.Context(), e.c, logName, newCounters())
	require.ErrorIs(t, err, statemachine.ErrNoSnapshot)
	require.ErrorContains(t, err, "records below offset 3 are trimmed, and the replica has no directory of snapshots")
	_, err = statemachine.Open(t.Context(), e.c, logName, newCounters(), statemachine.WithSnapshots(statemachine.Files(t.TempDir())))
	require.ErrorIs(t, err, statemachine.ErrNoSnapshot)
}

func TestABootReportsItsProgress(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	d := statemachine.Files(t.TempDir())
	e.store(d, 3)
	r := e.open(newCounters())
	for range 600 {
		e.propose(r, "a")
	}
	var seen []statemachine.Progress
	e.open(newCounters(), statemachine.WithSnapshots(d), statemachine.WithSchedule(0, 0),
		statemachine.WithHooks(statemachine.Hooks{Progress: func(p statemachine.Progress) { seen = append(seen, p) }}))
	require.NotEmpty(t, seen)
	last := seen[len(seen)-1]
	require.True(t, last.Done())
	require.EqualValues(t, 603, last.End)
	require.EqualValues(t, 603, last.Applied)
	require.EqualValues(t, 3, last.From)
}

// slowDirectory deletes what it is asked for, as another replica may that has a later snapshot.
type slowDirectory struct {
	statemachine.Directory
	before func(name string)
}

func (d slowDirectory) Get(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	d.before(name)
	return d.Directory.Get(ctx, name)
}

func TestABootThatFindsItsSnapshotDeletedUsesTheOneThatReplacedIt(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	d := statemachine.Files(t.TempDir())
	e.store(d, 2)
	replaced := false
	state := newCounters()
	e.open(state, statemachine.WithSchedule(0, 0), statemachine.WithSnapshots(slowDirectory{d, func(name string) {
		if !replaced {
			replaced = true
			e.store(d, 2)
			require.NoError(t, d.Delete(t.Context(), name))
			_, _, err := e.c.Admin().SetHold(t.Context(), logName, client.HoldInfo{Name: "statemachine", Offset: 4})
			require.NoError(t, err)
			_, _, err = e.c.Admin().Trim(t.Context(), logName, 4, false)
			require.NoError(t, err)
		}
	}}))
	require.True(t, replaced)
	require.Equal(t, 4, state.Counts["a"])
}

// A part of a damaged snapshot is in the machine: the whole log would be applied to it.
func TestAStateOfADamagedSnapshotIsNoEmptyState(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	folder := t.TempDir()
	d := statemachine.Files(folder)
	e.store(d, 2)
	found := names(t, d)
	newest := filepath.Join(folder, found[1])
	text, err := os.ReadFile(newest)
	require.NoError(t, err)
	text[len(text)-1] ^= 1
	require.NoError(t, os.WriteFile(newest, text, 0o600))
	_, err = statemachine.Open(t.Context(), e.c, logName, newCounters(), statemachine.WithSchedule(0, 0), statemachine.WithSnapshots(slowDirectory{d, func(name string) {
		if name == found[0] {
			require.NoError(t, errors.Join(d.Delete(t.Context(), found[0]), d.Delete(t.Context(), found[1])))
		}
	}}))
	require.ErrorIs(t, err, statemachine.ErrNoSnapshot)
}

// A replica that was cut off for so long that the records it lacks are trimmed continues from a snapshot.
func TestAReplicaThatLagsBehindTheLogContinuesFromASnapshot(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	d := statemachine.Files(t.TempDir())
	state := newCounters()
	old := e.open(state)
	e.propose(old, "a")
	e.close(old)
	e.store(d, 5)
	_, _, err := e.c.Admin().SetHold(t.Context(), logName, client.HoldInfo{Name: "statemachine", Offset: 4})
	require.NoError(t, err)
	_, _, err = e.c.Admin().Trim(t.Context(), logName, 4, false)
	require.NoError(t, err)
	r := e.open(state, statemachine.WithState(old.LogID(), old.Offset()), statemachine.WithSnapshots(d), statemachine.WithSchedule(0, 0))
	require.Equal(t, 6, state.Counts["a"])
	require.EqualValues(t, 6, r.Offset())
}

// Replicas that share a directory do not each take every snapshot.
func TestReplicasThatShareADirectoryUseEachOthersSnapshots(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	d := statemachine.Files(t.TempDir())
	var count atomic.Int64
	hooks := statemachine.WithHooks(statemachine.Hooks{Snapshot: func(s statemachine.SnapshotResult) {
		if s.Err == nil {
			count.Add(1)
		}
	}})
	var replicas []*statemachine.Replica[int]
	var states []*counters
	for range 4 {
		states = append(states, newCounters())
		replicas = append(replicas, e.open(states[len(states)-1], statemachine.WithSnapshots(d), statemachine.WithSchedule(40, 0), statemachine.WithTrim(), hooks))
	}
	const n = 600
	for i := range n {
		e.propose(replicas[i%4], fmt.Sprint("key", i%7))
	}
	for i, r := range replicas {
		require.NoError(t, r.Query(t.Context(), statemachine.Linearizable, func() { require.Equal(t, states[0].Sum, states[i].Sum) }))
	}
	require.Positive(t, count.Load())
	require.Less(t, count.Load(), int64(4*n/40*2/3), "fewer than if each replica took its own")
	fresh := newCounters()
	e.open(fresh, statemachine.WithSnapshots(d))
	require.Equal(t, states[0].Sum, fresh.Sum)
}

func TestALeaseOfTheHoldIsRenewedUntilTheReplicaIsClosed(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	d := statemachine.Files(t.TempDir())
	options := []statemachine.Option{statemachine.WithSnapshots(d), statemachine.WithHold(client.HoldInfo{Name: "view", Lease: time.Second})}
	r, err := statemachine.Open(t.Context(), e.c, logName, newCounters(), options...)
	require.NoError(t, err)
	e.propose(r, "a")
	for began := time.Now(); time.Since(began) < 2500*time.Millisecond; {
		require.Len(t, e.holds(), 1)
	}
	e.close(r)
	require.Eventually(t, func() bool { return len(e.holds()) == 0 }, time.Minute, 10*time.Millisecond)
}

// Two directories with one hold would trim away what the replicas of the other one need.
func TestADirectoryDoesNotMoveTheHoldOfAnother(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	options := func(d statemachine.Directory, records int64, results chan statemachine.SnapshotResult) []statemachine.Option {
		return []statemachine.Option{statemachine.WithSnapshots(d), statemachine.WithSchedule(records, 0), statemachine.WithTrim(), statemachine.WithKeptSnapshots(1), taken(results)}
	}
	results, others := make(chan statemachine.SnapshotResult, 10), make(chan statemachine.SnapshotResult, 10)
	first := e.open(newCounters(), options(statemachine.Files(t.TempDir()), 10, results)...)
	second := e.open(newCounters(), options(statemachine.Files(t.TempDir()), 50, others)...)
	for first.Offset() < 15 { // it is due after 10 to 15
		e.propose(first, "a")
	}
	one := <-results
	require.NoError(t, one.Err)
	e.close(first)

	for len(others) == 0 {
		e.propose(second, "a")
	}
	require.ErrorIs(t, (<-others).Err, statemachine.ErrHoldOfAnother)
	hold := e.holds()[0]
	require.Equal(t, one.Offset, hold.Offset)
	require.FileExists(t, string(hold.Pointer))
	require.Equal(t, hold.Offset, e.info().Start, "the records behind the snapshot of the first directory stay")

	_, err := statemachine.Open(t.Context(), e.c, logName, newCounters(), options(statemachine.Files(t.TempDir()), 10, others)...)
	require.ErrorIs(t, err, statemachine.ErrHoldOfAnother)
	require.ErrorContains(t, err, "a hold with a name of its own")
	named := options(statemachine.Files(t.TempDir()), 10, others)
	_, err = statemachine.Open(t.Context(), e.c, logName, newCounters(), append(named, statemachine.WithHold(client.HoldInfo{Name: "two"}))...)
	require.ErrorIs(t, err, statemachine.ErrNoSnapshot, "a new directory needs a copy of a snapshot")
}

// After a recovery of the cluster offsets are given again.
func TestAStateThatContainsMoreThanTheLogIsRefused(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	folder := t.TempDir()
	d := statemachine.Files(folder)
	e.store(d, 3)
	newest := names(t, d)[2]
	ahead := newest[:len(newest)-1] + "4" // of a record that the log has lost
	require.NoError(t, os.Rename(filepath.Join(folder, newest), filepath.Join(folder, ahead)))
	_, err := statemachine.Open(t.Context(), e.c, logName, newCounters(), statemachine.WithSnapshots(d))
	require.ErrorIs(t, err, statemachine.ErrAhead)
	require.ErrorContains(t, err, ahead+" is at offset 4, but the log ends at 3")
	_, err = statemachine.Open(t.Context(), e.c, logName, newCounters(), statemachine.WithState(e.info().ID, 4))
	require.ErrorIs(t, err, statemachine.ErrAhead)
	require.NoError(t, os.Remove(filepath.Join(folder, ahead)))
	state := newCounters()
	e.open(state, statemachine.WithSnapshots(d))
	require.Equal(t, 3, state.Counts["a"])
}

// A directory that does not answer while the state is replaced does not hold up a query beyond its context.
func TestAQueryEndsWithItsContextWhileTheStateIsReplaced(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	d := statemachine.Files(t.TempDir())
	e.store(d, 3)
	calls, replacing, release := 0, make(chan struct{}), make(chan struct{})
	state := newCounters()
	r := e.open(state, statemachine.WithSchedule(0, 0), statemachine.WithSnapshots(slowDirectory{d, func(string) {
		if calls++; calls == 2 {
			close(replacing)
			<-release
		} else if calls == 1 {
			e.store(d, 2)
			_, _, err := e.c.Admin().SetHold(t.Context(), logName, client.HoldInfo{Name: "statemachine", Offset: 5})
			require.NoError(t, err)
			_, _, err = e.c.Admin().Trim(t.Context(), logName, 5, false)
			require.NoError(t, err)
		}
	}}))
	<-replacing
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.Query(ctx, statemachine.AsApplied, func() {}), context.DeadlineExceeded)
	close(release)
	require.NoError(t, r.Query(t.Context(), statemachine.AtLeast(5), func() { require.Equal(t, 5, state.Counts["a"]) }))
}
