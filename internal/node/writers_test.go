package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

func TestAWriterLeasePassesOnAndSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	create(t, n, "orders", settings.Config{Fenced: true})
	mustAppend(t, n, "orders", "before")
	first := record.Writer{Name: "first", Payload: []byte("10.0.0.1:80"), Lease: 3_600_000}
	grant, err := n.LeaseWriter(t.Context(), anyone, "orders", first, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, grant.Term)
	require.EqualValues(t, 1, grant.End)
	require.Equal(t, first, grant.State.Holder.Writer)
	require.NotZero(t, grant.State.Holder.Leased)
	require.NoError(t, n.KeepWriter(t.Context(), anyone, "orders", 1))
	vain, err := n.LeaseWriter(t.Context(), anyone, "orders", record.Writer{Name: "second", Lease: 1000}, 0)
	require.NoError(t, err)
	require.Zero(t, vain.Term)
	require.Equal(t, "first", vain.State.Holder.Name)
	vain, err = n.LeaseWriter(t.Context(), anyone, "orders", record.Writer{Name: "second", Lease: 1000}, 10*time.Millisecond)
	require.NoError(t, err)
	require.Zero(t, vain.Term)

	require.NoError(t, n.Close(t.Context()))
	n = open(t, dir)
	state, err := n.WatchWriter(t.Context(), anyone, "orders", nil, 0)
	require.NoError(t, err)
	require.Equal(t, grant.State.Holder, state.Holder)

	measured := func() map[string]float64 {
		collector, err := n.LogMetrics([]string{"orders"})
		require.NoError(t, err)
		return gathered(t, collector)
	}
	require.EqualValues(t, 1, measured()["log_writer{log=orders,name=first}"])
	require.EqualValues(t, 1, measured()["log_writer_term{log=orders}"])
	require.Zero(t, measured()["log_writers_waiting{log=orders}"])

	second := make(chan verbs.WriterGrant, 1)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		grant, err := n.LeaseWriter(context.Background(), anyone, "orders", record.Writer{Name: "second", Lease: 1000}, time.Minute)
		if err == nil {
			second <- grant
		}
	})
	defer waiting.Wait()
	require.Eventually(t, func() bool {
		state, err := n.WatchWriter(t.Context(), anyone, "orders", nil, 0)
		return err == nil && state.Waiting == 1
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return measured()["log_writers_waiting{log=orders}"] == 1 }, time.Minute, time.Millisecond)
	old := request(t, "of the first")
	old.WriterTerm = 1
	require.Nil(t, appendTo(t, n, "orders", old).Refusal)
	require.NoError(t, n.ReleaseWriter(t.Context(), anyone, "orders", 1, "second"))
	require.EqualValues(t, 2, (<-second).Term)
	late := request(t, "of the first, later")
	late.WriterTerm = 1
	require.Equal(t, record.Fenced, appendTo(t, n, "orders", late).Refusal.Reason)
	changed, err := n.WatchWriter(t.Context(), anyone, "orders", &state, time.Minute)
	require.NoError(t, err)
	require.Equal(t, "second", changed.Holder.Name)
	require.Eventually(t, func() bool { return measured()["log_writer{log=orders,name=second}"] == 1 }, time.Minute, time.Millisecond)
	require.NotContains(t, measured(), "log_writer{log=orders,name=first}")
	same, err := n.WatchWriter(t.Context(), anyone, "orders", &changed, time.Millisecond)
	require.NoError(t, err)
	require.EqualValues(t, 2, same.Holder.Term)
}

// Whoever gives up while it waits holds nothing, however close the grant was.
func TestWhoGivesUpWaitingForAWriterLeaseDoesNotGetIt(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	for i := range 50 {
		grant, err := n.LeaseWriter(t.Context(), anyone, "orders", record.Writer{Name: "holder", Lease: 3_600_000}, time.Minute)
		require.NoError(t, err)
		require.NotZero(t, grant.Term)
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() {
			_, err := n.LeaseWriter(ctx, anyone, "orders", record.Writer{Name: "brief", Lease: 3_600_000}, time.Minute)
			if err == nil {
				err = n.ReleaseWriter(context.Background(), anyone, "orders", grant.Term+1, "")
			} else if errors.Is(err, context.Canceled) {
				err = nil
			}
			if err != nil {
				t.Error(i, err)
			}
		})
		waiting.Go(func() {
			if err := n.ReleaseWriter(context.Background(), anyone, "orders", grant.Term, ""); err != nil {
				t.Error(i, err)
			}
		})
		cancel()
		waiting.Wait()
	}
}

func TestAWriterIsRefusedThatNoLogTakes(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	for _, row := range []struct {
		log    string
		writer record.Writer
		reason record.Reason
	}{
		{"orders", record.Writer{Lease: 1000}, record.Invalid},
		{"orders", record.Writer{Name: "a"}, record.Invalid},
		{"orders", record.Writer{Name: "a", Lease: 999}, record.Invalid},
		{"orders", record.Writer{Name: "a", Lease: 3_600_001}, record.TooLarge},
		{"orders", record.Writer{Name: strings.Repeat("a", record.MaxWriterName+1), Lease: 1000}, record.TooLarge},
		{"orders", record.Writer{Name: "a", Payload: make([]byte, record.MaxWriterPayload+1), Lease: 1000}, record.TooLarge},
		{verbs.CatalogLog, record.Writer{Name: "a", Lease: 1000}, record.Invalid},
		{"absent", record.Writer{Name: "a", Lease: 1000}, record.LogNotFound},
	} {
		_, err := n.LeaseWriter(t.Context(), anyone, row.log, row.writer, 0)
		requireReason(t, row.reason, err)
	}
	requireReason(t, record.Invalid, n.KeepWriter(t.Context(), anyone, "orders", 1))
	requireReason(t, record.Invalid, n.ReleaseWriter(t.Context(), anyone, "orders", 0, ""))
}

// leaving is the context of a caller that leaves once the first wait with it is over.
type leaving struct {
	context.Context
	left  chan struct{} // closed
	waits atomic.Int32
}

func (l *leaving) Done() <-chan struct{} {
	if l.waits.Add(1) == 1 {
		return l.Context.Done()
	}
	return l.left
}

func (l *leaving) Err() error {
	if l.waits.Load() > 1 {
		return context.Canceled
	}
	return nil
}

func TestAGrantOfTheWriterLeaseToACallerThatLeavesBeforeItIsAppliedIsReleased(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	ctx := &leaving{Context: t.Context(), left: make(chan struct{})}
	close(ctx.left)
	_, err := n.LeaseWriter(ctx, anyone, "orders", record.Writer{Name: "first", Lease: 3_600_000}, 0)
	require.ErrorIs(t, err, context.Canceled)
	grant, err := n.LeaseWriter(t.Context(), anyone, "orders", record.Writer{Name: "second", Lease: 1000}, time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 2, grant.Term)
}

// Nodes of the release before do not know the commands: below the level there are none.
func TestAWriterLeaseNeedsItsFeatureLevel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(max int) *Node {
		n, err := Open(settings.Options{FormAlone: true, DataDir: dir, Levels: cluster.Levels{Min: 1, Max: max}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		return n
	}
	n := start(cluster.WriterLevel - 1)
	create(t, n, "orders", settings.Config{})
	lease := func() error {
		_, err := n.LeaseWriter(t.Context(), anyone, "orders", record.Writer{Name: "a", Lease: 1000}, 0)
		return err
	}
	requireReason(t, record.Precondition, lease())
	_, err := n.WatchWriter(t.Context(), anyone, "orders", nil, 0)
	require.NoError(t, err)
	require.NoError(t, n.Close(t.Context()))
	n = start(cluster.WriterLevel)
	requireReason(t, record.Precondition, lease())
	_, err = n.FinalizeCluster(t.Context(), anyone)
	require.NoError(t, err)
	require.NoError(t, lease())
	require.NoError(t, n.Close(t.Context()))
}

// Many programs contend for the lease of a log, and its leaders move. Whoever gets it appends, also
// after it has released the lease, or has been silent for longer than it lasts. No record of an older term follows one of a
// newer one.
func TestTheWriterLeaseOfALogWhoseLeadersMovePassesOnInOrder(t *testing.T) {
	t.Parallel()
	const changes, programs = 60, 4
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{Fenced: true})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var granted atomic.Int64
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	led := func() *Node {
		for _, n := range c.nodes {
			if h := n.logs.Named("orders"); h != nil && h.Problem() == nil && h.Replica.Status().Leading {
				return n
			}
		}
		return c.nodes["a"]
	}
	program := func(name string) {
		var term record.WriterTerm
		append := func(i int) {
			q := request(t, fmt.Sprint(uint64(term), " ", name, " ", i))
			q.WriterTerm = term
			_ = appendTo(t, led(), "orders", q)
		}
		for round := 0; ctx.Err() == nil; round++ {
			if term != 0 {
				append(-1) // as one that has not learned that its lease has ended
			}
			grant, err := led().LeaseWriter(ctx, anyone, "orders", record.Writer{Name: name, Lease: 1000}, 5*time.Second)
			if err != nil || grant.Term == 0 {
				background.Pause(ctx, 5*time.Millisecond)
				continue
			}
			granted.Add(1)
			term = grant.Term
			for i := range 5 {
				append(i)
			}
			if round%4 != 0 { // otherwise it is silent from now on
				_ = led().ReleaseWriter(ctx, anyone, "orders", grant.Term, "")
			}
		}
	}
	for i := range programs {
		running.Go(func() { program(fmt.Sprint("program ", i)) })
	}
	for granted.Load() < changes {
		c.transfer("orders", c.follower("orders"))
	}
	cancel()
	running.Wait()
	texts, err := c.values("a", "orders", reading.Request{Until: reading.NoOffset})
	require.NoError(t, err)
	newest := 0
	for _, text := range texts {
		var term int
		_, err := fmt.Sscanf(text, "%d ", &term)
		require.NoError(t, err, text)
		require.GreaterOrEqual(t, term, newest, text)
		newest = term
	}
	require.NotZero(t, newest)
}
