package statemachine_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/embed"
	"strandline.dev/statemachine"
)

func TestAProposalReturnsTheResultOfItsOwnRecord(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	state := newCounters()
	r := e.open(state)
	for n := 1; n <= 20; n++ {
		applied := e.propose(r, "a")
		require.Equal(t, n, applied.Result)
		require.EqualValues(t, n-1, applied.Offset)
	}
	require.EqualValues(t, 20, r.Offset())
	stats := r.Stats()
	require.EqualValues(t, 20, stats.Proposals)
	require.Zero(t, stats.Pending)
	require.EqualValues(t, 20, stats.Records)
	require.Zero(t, stats.Lag())
}

// Callers of two replicas, and one that only appends, count up one counter each: each result is that of its own
// record.
func TestProposalsOfManyCallersAndReplicasGetTheirOwnResults(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	states := []*counters{newCounters(), newCounters()}
	replicas := []*statemachine.Replica[int]{e.open(states[0]), e.open(states[1])}
	other, err := e.c.Producer(t.Context(), logName)
	require.NoError(t, err)
	const callers, each = 8, 50
	var working sync.WaitGroup
	failures := make(chan error, callers)
	for i := range callers {
		working.Go(func() {
			key := fmt.Sprint("caller", i)
			for n := 1; n <= each; n++ {
				applied, err := replicas[i%2].Propose(t.Context(), client.Record{Key: []byte(key)})
				if err != nil || applied.Result != n {
					failures <- fmt.Errorf("proposal %d of %s: %d, %w", n, key, applied.Result, err)
					return
				}
				if _, err := other.AppendRecord(t.Context(), client.Record{Key: []byte("other")}); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	working.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	require.NoError(t, other.Close(t.Context()))
	for i, r := range replicas {
		require.NoError(t, r.Query(t.Context(), statemachine.Linearizable, func() {
			require.Equal(t, callers*each, states[i].Counts["other"])
			require.Equal(t, each, states[i].Counts["caller3"])
		}))
	}
	require.Equal(t, states[0], states[1])
}

func TestQueriesSeeWhatTheyAskFor(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	one, two := newCounters(), newCounters()
	writes, reads := e.open(one), e.open(two)
	read := func(fresh statemachine.Freshness) (n int) {
		require.NoError(t, reads.Query(t.Context(), fresh, func() { n = two.Counts["a"] }))
		return n
	}
	for n := 1; n <= 20; n++ {
		applied := e.propose(writes, "a")
		if n%2 == 0 {
			require.GreaterOrEqual(t, read(statemachine.AtLeast(applied.Offset+1)), n, "a program reads what it has written")
		} else {
			require.GreaterOrEqual(t, read(statemachine.Linearizable), n)
		}
		require.NoError(t, writes.Query(t.Context(), statemachine.AsApplied, func() { require.Equal(t, n, one.Counts["a"]) }))
	}
	require.Equal(t, 20, read(statemachine.AsApplied))

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := reads.Query(ctx, statemachine.AtLeast(1000), func() { t.Error("that is not applied") })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "the state is at offset 20, waiting for 1000")
}

// A query with a bound asks nobody as long as the bound permits, and asks afterwards.
func TestAQueryWithABoundAsksTheLogOnlyBeyondIt(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	c := e.dial()
	state := newCounters()
	r, err := statemachine.Open(t.Context(), c, logName, state)
	require.NoError(t, err)
	defer func() { _ = r.Close(t.Context()) }()
	e.propose(r, "a")
	require.NoError(t, r.Query(t.Context(), statemachine.Linearizable, func() {}))
	require.NoError(t, c.Close()) // nobody can be asked now
	seen := 0
	require.NoError(t, r.Query(t.Context(), statemachine.MaxAge(time.Hour), func() { seen = state.Counts["a"] }))
	require.Equal(t, 1, seen)
	require.Error(t, r.Query(t.Context(), statemachine.MaxAge(0), func() { t.Error("that is not known") }))
}

func TestARecordThatCannotBeAppliedStopsTheReplica(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	r := e.open(newCounters())
	e.propose(r, "a")
	_, err := r.Propose(t.Context(), client.Record{Key: []byte("poison")})
	require.ErrorIs(t, err, statemachine.ErrStopped)
	require.ErrorContains(t, err, "a record that cannot be applied")
	var failed *statemachine.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, client.Done, failed.Outcome)
	require.EqualValues(t, 1, failed.Offset)
	<-r.Done()
	require.ErrorContains(t, r.Err(), "a record that cannot be applied")
	require.ErrorIs(t, r.Query(t.Context(), statemachine.AsApplied, func() { t.Error("a query of a replica that has stopped") }), statemachine.ErrStopped)
	_, err = r.Propose(t.Context(), client.Record{Key: []byte("a")})
	require.ErrorAs(t, err, &failed)
	require.Equal(t, client.NotDone, failed.Outcome)
	require.EqualValues(t, 2, e.info().End, "nothing was appended")

	_, err = statemachine.Open(t.Context(), e.c, logName, newCounters())
	require.ErrorContains(t, err, "a record that cannot be applied", "a boot says so")
}

func TestAProposalOnAConditionIsRefusedAndOthersAreNot(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	r := e.open(newCounters())
	e.propose(r, "a")
	taken := client.WithCheck(client.Check{Keys: [][]byte{[]byte("a")}})
	_, err := r.Propose(t.Context(), client.Record{Key: []byte("a")}, taken)
	require.ErrorIs(t, err, client.ErrConflict)
	applied, err := r.Propose(t.Context(), client.Record{Key: []byte("b")}, client.WithCheck(client.Check{Keys: [][]byte{[]byte("b")}}))
	require.NoError(t, err)
	require.Equal(t, 1, applied.Result)

	// Those that share the session with one that is refused are not.
	var working sync.WaitGroup
	var done atomic.Int64
	for range 8 {
		working.Go(func() {
			for range 20 {
				if _, err := r.Propose(t.Context(), client.Record{Key: []byte("c")}); err == nil {
					done.Add(1)
				}
				_, _ = r.Propose(t.Context(), client.Record{Key: []byte("a")}, taken)
			}
		})
	}
	working.Wait()
	require.EqualValues(t, 160, done.Load())
	_, err = r.Propose(t.Context(), client.Record{Headers: []client.Header{{Key: statemachine.Header}}})
	require.ErrorIs(t, err, client.ErrInvalid)
}

// cutConn breaks after so many bytes of answers.
type cutConn struct {
	net.Conn
	left atomic.Int64
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.left.Add(-int64(n)) < 0 {
		return 0, errors.Join(net.ErrClosed, c.Close())
	}
	return n, err
}

// Answers are lost again and again, after the records are in the log: each proposal is applied once.
func TestEachProposalIsAppliedOnceWhileConnectionsBreak(t *testing.T) {
	t.Parallel()
	nodes, err := embed.Open(t.Context(), t.TempDir(), embed.WithGRPC("127.0.0.1:0"))
	require.NoError(t, err)
	defer nodes.Close()
	var dials atomic.Int64
	c, err := client.Dial([]string{nodes.Nodes()[0].GRPC}, client.WithRetryTime(time.Minute), client.WithDialer(func(ctx context.Context, address string) (net.Conn, error) {
		made, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		cut := &cutConn{Conn: made}
		cut.left.Store(4000 + dials.Add(1)*733%3000)
		return cut, nil
	}))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Admin().CreateLog(t.Context(), logName, client.LogConfig{Durability: client.Memory})
	require.NoError(t, err)
	state := newCounters()
	r, err := statemachine.Open(t.Context(), c, logName, state)
	require.NoError(t, err)
	for n := 1; n <= 300; n++ {
		applied, err := r.Propose(t.Context(), client.Record{Key: []byte("a")})
		require.NoError(t, err)
		require.Equal(t, n, applied.Result)
	}
	require.Equal(t, 300, state.Counts["a"])
	require.Greater(t, dials.Load(), int64(5))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_ = r.Close(ctx)
}

func TestAReplicaOfALogThatIsReplacedStops(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	r, err := statemachine.Open(t.Context(), e.c, logName, newCounters())
	require.NoError(t, err)
	defer func() { _ = r.Close(t.Context()) }()
	e.propose(r, "a")
	id := r.LogID()
	require.NoError(t, e.c.Admin().DeleteLog(t.Context(), logName))
	_, err = e.c.Admin().CreateLog(t.Context(), logName, client.LogConfig{Durability: client.Memory})
	require.NoError(t, err)
	<-r.Done()
	require.Error(t, r.Err())
	_, err = statemachine.Open(t.Context(), e.c, logName, newCounters(), statemachine.WithState(id, 1))
	require.ErrorIs(t, err, client.ErrLogReplaced)
}

func TestAMachineWithAStateOfItsOwnContinuesThere(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	state := newCounters()
	r := e.open(state)
	for range 10 {
		e.propose(r, "a")
	}
	e.close(r)
	id, next := r.LogID(), r.Offset()
	other := e.open(newCounters())
	e.propose(other, "a")
	again := e.open(state, statemachine.WithState(id, next))
	require.Equal(t, 11, state.Counts["a"])
	require.EqualValues(t, 1, again.Stats().Records)
}
