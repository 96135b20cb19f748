package statemachine_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/statemachine"
)

// flipped is a machine of which a bit flips when a key comes for the first time.
type flipped struct {
	checked
	key string
}

func (f flipped) Apply(r client.Record) (int, error) {
	n, err := f.checked.Apply(r)
	if string(r.Key) == f.key && n == 1 {
		f.Sum[0] ^= 1
	}
	return n, err
}

func TestAReplicaWhoseStateDivergesStopsAndTheOthersContinue(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	const every = 10
	option := func(name string) []statemachine.Option {
		return []statemachine.Option{statemachine.WithDigests(every), statemachine.WithName(name)}
	}
	good := e.open(checked{newCounters()}, option("good")...)
	also := e.open(checked{newCounters()}, option("also good")...)
	bad := e.open(flipped{checked{newCounters()}, "b"}, option("bad")...)
	for range 3 * every {
		e.propose(good, "a")
	}
	for _, r := range []*statemachine.Replica[int]{good, also, bad} {
		require.NoError(t, r.Query(t.Context(), statemachine.Linearizable, func() {}), "they agree")
	}
	diverged := e.propose(good, "b").Offset
	for range 2 * every {
		e.propose(good, "a")
	}
	<-bad.Done()
	require.ErrorIs(t, bad.Err(), statemachine.ErrDiverged)
	var found *statemachine.Divergence
	require.ErrorAs(t, bad.Err(), &found)
	require.Equal(t, diverged/every*every+every, found.At, "the first digest after it")
	require.NotEqual(t, found.Own, found.Other)
	require.Equal(t, 1, found.Agree)
	require.Equal(t, 2, found.Disagree)
	require.Equal(t, "also good", found.Replica)
	require.ErrorIs(t, bad.Query(t.Context(), statemachine.AsApplied, func() { t.Error("a query of a state that is wrong") }), statemachine.ErrDiverged)
	_, err := bad.Propose(t.Context(), client.Record{Key: []byte("a")})
	require.ErrorIs(t, err, statemachine.ErrDiverged)

	for range 3 * every {
		e.propose(good, "a")
	}
	for _, r := range []*statemachine.Replica[int]{good, also} {
		require.NoError(t, r.Query(t.Context(), statemachine.Linearizable, func() {}))
	}

	// A replica that boots later finds the difference in what it reads.
	_, err = statemachine.Open(t.Context(), e.c, logName, flipped{checked{newCounters()}, "b"}, option("bad again")...)
	require.ErrorIs(t, err, statemachine.ErrDiverged)
	third := newCounters()
	e.open(checked{third}, option("third")...)
	require.NotZero(t, third.Counts["a"])
}

// Nobody knows which one of two is right.
func TestTwoReplicasThatDifferDoNotBothContinue(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	good := e.open(checked{newCounters()}, statemachine.WithDigests(10))
	bad := e.open(flipped{checked{newCounters()}, "a"}, statemachine.WithDigests(10))
	p, err := e.c.Producer(t.Context(), logName)
	require.NoError(t, err)
	for stopped := false; !stopped; { // when the next digest is due
		_, err := p.AppendRecord(t.Context(), client.Record{Key: []byte("a")})
		require.NoError(t, err)
		select {
		case <-good.Done():
			require.ErrorIs(t, good.Err(), statemachine.ErrDiverged)
			stopped = true
		case <-bad.Done():
			require.ErrorIs(t, bad.Err(), statemachine.ErrDiverged)
			stopped = true
		default:
		}
	}
	require.NoError(t, p.Close(t.Context()))
}

// forgetful is a machine whose snapshots lack a part of the state.
type forgetful struct{ checked }

func (f forgetful) Restore(r io.Reader) error {
	err := f.checked.Restore(r)
	f.Sum = nil
	return err
}

func TestASnapshotThatIsNotTheStateIsNoticedWhenItIsRestored(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	d := statemachine.Files(t.TempDir())
	results := make(chan statemachine.SnapshotResult, 1)
	r := e.open(checked{newCounters()}, statemachine.WithSnapshots(d), statemachine.WithSchedule(1, 0), taken(results))
	e.propose(r, "a")
	require.NoError(t, (<-results).Err)
	_, err := statemachine.Open(t.Context(), e.c, logName, forgetful{checked{newCounters()}}, statemachine.WithSnapshots(d))
	require.ErrorIs(t, err, statemachine.ErrDiverged)
	require.NoError(t, r.Err())
}
