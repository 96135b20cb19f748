package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	goruntime "runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment/memory"
)

// holders are how many replicas a log has by now, all of them settled.
func (c *testCluster) holders(log string) int {
	for _, n := range c.nodes {
		l := n.catalog.Load().Shown.Load().Logs[log]
		if !l.Settled() {
			return 0
		}
		return len(l.Replicas)
	}
	return 0
}

// joined starts nodes that are admitted to the cluster of a.
func (c *testCluster) joined(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.start(name, []string{c.addresses["a"]})
		c.eventually(name+" is a member", func() bool { return c.nodes[name].catalog.Load() != nil })
	}
}

func TestALogThatIsCreatedTooEarlyGetsItsReplicasLater(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	a := c.nodes["a"]
	info, err := a.CreateLog(t.Context(), anyone, "orders", settings.Config{Replicas: 3})
	require.NoError(t, err)
	require.Equal(t, 3, info.Config.Replicas, "what it wants")
	require.Len(t, info.Replicas, 1, "what it has")
	_, err = a.CreateLog(t.Context(), anyone, "any", settings.Config{})
	require.NoError(t, err)
	_, err = a.CreateLog(t.Context(), anyone, "single", settings.Config{Replicas: 1})
	require.NoError(t, err)
	c.append("orders", "early")
	c.eventually("what is missing is shown, and only that", func() bool {
		status, err := a.ClusterStatus(t.Context(), anyone)
		return err == nil && len(status.Logs) == 4 && !slices.ContainsFunc(status.Logs, func(l verbs.LogStatus) bool {
			missing := 0
			for _, r := range l.Replicas {
				if r.Role == verbs.Missing {
					missing++
				}
			}
			return missing != map[string]int{"orders": 2}[l.Name] || l.Healthy != (l.Name != "orders")
		})
	})

	c.joined("b", "c")
	c.healthy()
	require.Equal(t, 3, c.holders("orders"))
	require.Equal(t, 3, c.holders("any"))
	require.Equal(t, 1, c.holders("single"))
	c.append("orders", "late")
	for name := range c.nodes {
		texts, err := c.values(name, "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
		require.NoError(t, err)
		require.Equal(t, []string{"early", "late"}, texts)
	}
}

func TestTheNumberOfReplicasIsConfigured(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	a := c.nodes["a"]
	for _, durability := range []settings.Durability{settings.Disk, settings.Memory} {
		log := durability.String()
		_, err := a.CreateLog(t.Context(), anyone, log, settings.Config{Replicas: 1, Durability: durability})
		require.NoError(t, err)
		c.append(log, "one")
		for _, replicas := range []int{3, 2, 1, 3} {
			info, err := a.ConfigureLog(t.Context(), anyone, log, settings.Config{Replicas: replicas, Durability: durability})
			require.NoError(t, err)
			require.Equal(t, replicas, info.Config.Replicas)
			c.eventually(fmt.Sprint(replicas, " replicas"), func() bool { return c.holders(log) == replicas })
			c.healthy()
			c.append(log, "more")
		}
		texts, err := c.values(c.leader(log), log, reading.Request{Consistency: reading.ConsistencyLinearizable})
		require.NoError(t, err)
		require.Equal(t, []string{"one", "more", "more", "more", "more"}, texts)
	}
	_, err := a.ConfigureLog(t.Context(), anyone, "disk", settings.Config{Replicas: cluster.MaxReplicas + 1})
	requireReason(t, record.Invalid, err)
}

func TestReplicasAreSpreadOntoNewNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	for i := range 6 {
		log := fmt.Sprint("log", i)
		_, err := c.createLog("a", log, settings.Config{Replicas: 3})
		require.NoError(t, err)
		c.append(log, "kept")
	}
	c.joined("d", "e")
	held := func() map[string]int {
		s := c.nodes["a"].catalog.Load().Shown.Load()
		held := map[string]int{}
		for _, l := range s.Logs {
			for _, r := range l.Replicas {
				held[s.Nodes[r.Node].Name]++
			}
		}
		return held
	}
	require.Equal(t, map[string]int{"a": 6, "b": 6, "c": 6}, held())
	c.eventually("a reaches the new ones", func() bool {
		left, err := c.nodes["a"].Rebalance(t.Context(), anyone)
		require.NoError(t, err)
		return left > 0 && c.nodes["a"].peers.Reaches(4) && c.nodes["a"].peers.Reaches(5)
	})
	c.eventually("nothing is left to move", func() bool {
		left, err := c.nodes["a"].Rebalance(t.Context(), anyone)
		require.NoError(t, err)
		return left == 0
	})
	for name, replicas := range held() {
		require.Contains(t, []int{3, 4}, replicas, name)
	}
	c.healthy()
	for i := range 6 {
		log := fmt.Sprint("log", i)
		texts, err := c.values(c.leader(log), log, reading.Request{Consistency: reading.ConsistencyLinearizable})
		require.NoError(t, err)
		require.Equal(t, []string{"kept"}, texts)
	}
}

// voteOf is a message by which a replica asks another one for its vote.
func voteOf(t *testing.T, founders []uint64, from, to uint64) []byte {
	b, err := core.Bootstrap(founders)
	require.NoError(t, err)
	log := memory.New(b)
	asked := make(chan []byte, 1)
	r, err := runtime.Start(runtime.Options{
		Memory: budget.New(budget.Least),
		ID:     from, Log: log, HardState: b.HardState, FirstLeader: true, Logger: slog.New(slog.DiscardHandler),
		Send: func(other uint64, _ bool, message net.Buffers) bool {
			if other == to {
				select {
				case asked <- bytes.Join(message, nil):
				default:
				}
			}
			return true
		},
	})
	require.NoError(t, err)
	defer func() {
		r.Close(t.Context())
		require.NoError(t, log.Close())
	}()
	for {
		select {
		case message := <-asked:
			return message
		default:
			r.Tick()
			goruntime.Gosched()
		}
	}
}

// A node that is mistaken about itself, or lies, cannot vote or acknowledge for
// another one.
func TestANodeCannotSpeakForTheReplicaOfAnother(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{Replicas: 3})
	require.NoError(t, err)
	a := c.nodes["a"]
	l := a.catalog.Load().Shown.Load().Logs["orders"]
	on := func(name string) (node, replica uint64) {
		node = c.nodes[name].me.Load().NodeID
		r, here := l.On(node)
		require.True(t, here)
		return node, r.ID
	}
	_, here := on("a")
	b, ofB := on("b")
	other, _ := on("c")
	message := voteOf(t, l.Founders, ofB, here)
	dropped := func() float64 { return testutil.ToFloat64(a.metrics.Forged) }

	before := dropped()
	a.receiver.Deliver(b, l.ID, here, message)
	require.Equal(t, before, dropped(), "it is b's")
	a.receiver.Deliver(other, l.ID, here, message)
	require.Equal(t, before+1, dropped(), "c asks for a vote for b's replica")
}

func TestANewerReplicaIsOfTheNodeThatItWasHeardOfFirst(t *testing.T) {
	t.Parallel()
	var r hosted.NewReplicas
	require.True(t, r.Learn(10, 4, 5))
	require.False(t, r.Learn(10, 3, 5), "another node claims it")
	require.True(t, r.Learn(10, 4, 5))
	require.Equal(t, uint64(4), r.Node(10))
	for id := uint64(11); id < 10+hosted.MaxNewReplicas; id++ {
		require.True(t, r.Learn(id, 3, 5))
	}
	require.False(t, r.Learn(500, 3, 5), "the memory for them is bounded")
	require.True(t, r.Learn(501, 3, 500), "the catalog has the others by now")
}

// A node that was away while a log was created must not say that there is none.
func TestANodeWithAnOldCatalogDoesNotDenyALog(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "first", settings.Config{})
	require.NoError(t, err)
	c.healthy()
	c.stop("c")
	_, err = c.createLog("a", "second", settings.Config{})
	require.NoError(t, err)
	c.stop("a")
	c.stop("b")
	c.start("c", nil) // alone: it cannot learn of what happened

	for _, log := range []string{"second", "none"} {
		_, err = c.nodes["c"].Read(t.Context(), anyone, log, everything)
		requireReason(t, record.NotLeader, err)
		require.ErrorContains(t, err, "does not know log")
		requireReason(t, record.NotLeader, appendTo(t, c.nodes["c"], log, request(t, "x")).Refusal)
		_, err = c.nodes["c"].KnownInfo(anyone, log)
		requireReason(t, record.NotLeader, err)
	}

	c.start("a", nil)
	c.eventually("c hears that there is no such log", func() bool {
		_, err := c.nodes["c"].KnownInfo(anyone, "none")
		return err != nil && errors.Is(err, &record.Refusal{Reason: record.LogNotFound})
	})
	c.eventually("c knows the log", func() bool {
		_, err := c.nodes["c"].KnownInfo(anyone, "second")
		return err == nil
	})
}

// A caller that asks for many unknown logs waits once.
func TestAQuestionAboutAMissingLogThatFailedAnswersTheNext(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	c := n.catalog.Load()
	_, refusal := c.Unknown.Confirm(c, "none")
	requireReason(t, record.LogNotFound, refusal)
	now := time.Now().Add(time.Hour) // as if it continued to fail
	c.Unknown.Failed.Store(&now)
	_, refusal = c.Unknown.Confirm(c, "none")
	requireReason(t, record.NotLeader, refusal)
}

// Every change of the catalog is looked at several times on each node. Not parallel: allocations of the whole
// process count.
func TestAStateOfTheCatalogIsHostedOnceHoweverManyLogsThereAre(t *testing.T) {
	const logs = 200
	n := open(t, t.TempDir())
	for i := range logs {
		create(t, n, fmt.Sprint(i), settings.Config{Durability: settings.Memory})
	}
	n.opener.Rehost()
	require.Less(t, testing.AllocsPerRun(100, n.opener.Rehost), float64(logs/2))
	require.NoError(t, n.DeleteLog(t.Context(), anyone, "7"))
	require.Nil(t, n.logs.Named("7"))
	create(t, n, "7", settings.Config{Durability: settings.Memory})
	require.NotNil(t, n.logs.Named("7"))
}
