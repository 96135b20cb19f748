package node

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/transport/peer"
)

// gathered are the values of all series, as "name{label=value}"; of histograms the
// count.
func gathered(t testing.TB, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := strings.TrimPrefix(f.GetName(), "strandline_")
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			values[name] = value(f.GetType(), m)
		}
	}
	return values
}

func value(kind dto.MetricType, m *dto.Metric) float64 {
	switch kind {
	case dto.MetricType_COUNTER:
		return m.Counter.GetValue()
	case dto.MetricType_HISTOGRAM:
		return float64(m.Histogram.GetSampleCount())
	}
	return m.Gauge.GetValue()
}

func (c *testCluster) metrics(name string) map[string]float64 {
	return gathered(c.t, c.nodes[name].Metrics())
}

func (c *testCluster) logMetrics(name, log string) map[string]float64 {
	c.t.Helper()
	collector, err := c.nodes[name].LogMetrics([]string{log})
	require.NoError(c.t, err)
	return gathered(c.t, collector)
}

func TestALogLeadsOnOneNodeAndItsReplicasAreCounted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	var log string
	for led, round := false, 0; !led; round++ {
		require.Less(t, round, reigns)
		log = fmt.Sprint("orders-", round)
		_, err := c.createLog("a", log, settings.Config{})
		require.NoError(t, err)
		leader, lasts := c.reign(log)
		for _, text := range numbered(0, 10) {
			c.append(log, text)
		}
		c.healthy()
		of, all := c.logMetrics(leader, log), c.metrics(leader)
		if led = lasts(); !led {
			continue
		}
		require.Equal(t, 10.0, of["log_end_offset{log="+log+"}"])
		require.Equal(t, 10.0, of["log_appended_records_total{log="+log+"}"])
		require.GreaterOrEqual(t, all["append_seconds"], 10.0)
		require.GreaterOrEqual(t, all["append_stage_seconds{stage=queue}"], 10.0)
		for _, stage := range []string{"batch", "write", "sync", "replicas"} {
			require.Equal(t, all["append_stage_seconds{stage=queue}"], all["append_stage_seconds{stage="+stage+"}"], stage)
		}
		require.GreaterOrEqual(t, all["elections_total"], 1.0)
		require.GreaterOrEqual(t, of["log_term{log="+log+"}"], 1.0)
	}
	c.eventually("one node leads, and nothing is missing", func() bool {
		leader := c.leader(log)
		for name := range c.nodes {
			of, all := c.logMetrics(name, log), c.metrics(name)
			if of["log_leading{log="+log+"}"] != oneIf(name == leader) || of["log_missing_replicas{log="+log+"}"] != 0 ||
				all["under_replicated_logs"] != 0 || all["nodes_down"] != 0 || all["nodes"] != 3 {
				return false
			}
		}
		return true
	})

	c.eventually("the leader knows what each other replica takes", func() bool {
		c.append(log, "more")
		leader := c.leader(log)
		all := c.metrics(leader)
		require.NotContains(t, all, "append_replica_seconds{node="+leader+"}")
		others := 0
		for name := range c.nodes {
			others += int(oneIf(all["append_replica_seconds{node="+name+"}"] > 0))
		}
		return others == 2
	})

	for led, round := false, 0; !led; round++ {
		require.Less(t, round, reigns)
		leader, lasts := c.reign(log)
		follower := map[string]string{"a": "b", "b": "c", "c": "a"}[leader]
		lag := fmt.Sprintf("log_follower_lag_records{log=%s,node=%s}", log, follower)
		c.eventually("the leader knows what the follower has", func() bool { return !lasts() || c.logMetrics(leader, log)[lag] == 0 })
		c.stop(follower)
		c.eventually("the log lacks a replica", func() bool {
			of, all := c.logMetrics(leader, log), c.metrics(leader)
			return !lasts() || all["under_replicated_logs"] >= 1 && all["nodes_down"] == 1 && of["log_missing_replicas{log="+log+"}"] == 1
		})
		c.append(log, "more")
		of, all := c.logMetrics(leader, log), c.metrics(leader)
		if led = lasts(); led {
			require.Equal(t, 1.0, of[lag])
			require.GreaterOrEqual(t, all["max_lag_records"], 1.0, "that of the catalog may be more")
			continue
		}
		c.start(follower, nil)
		c.healthy()
	}
}

func TestRefusalsAreCountedByVerbAndReason(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{MaxBatchBytes: 100})
	requireReason(t, record.TooLarge, appendTo(t, n, "orders", request(t, strings.Repeat("x", 200))).Refusal)
	_, err := n.Read(t.Context(), anyone, "none", everything)
	requireReason(t, record.LogNotFound, err)
	all := gathered(t, n.Metrics())
	require.Equal(t, 1.0, all["refusals_total{reason=TOO_LARGE,share=,verb=append}"])
	require.Equal(t, 1.0, all["refusals_total{reason=LOG_NOT_FOUND,share=,verb=read}"])
	require.Zero(t, all["appended_records_total"])
}

// Alerts are for what one caller's share does not explain.
func TestARefusalForTheShareOfItsCallerIsCountedSeparately(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	refusal := record.Refuse(record.Busy, "no memory")
	n.metrics.Refused("append", refusal)
	refusal.OwnShare = true
	for range 2 {
		n.metrics.Refused("append", refusal)
	}
	all := gathered(t, n.Metrics())
	require.Equal(t, 1.0, all["refusals_total{reason=BUSY,share=,verb=append}"])
	require.Equal(t, 2.0, all["refusals_total{reason=BUSY,share=own,verb=append}"])
}

func TestSeriesOfLogsAreThoseOfTheNamesAskedFor(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	for _, name := range []string{"audit-1", "audit-2", "orders"} {
		create(t, n, name, settings.Config{})
	}
	c, err := n.LogMetrics([]string{"audit-*"})
	require.NoError(t, err)
	all := gathered(t, c)
	require.Contains(t, all, "log_end_offset{log=audit-1}")
	require.Contains(t, all, "log_end_offset{log=audit-2}")
	require.NotContains(t, all, "log_end_offset{log=orders}")
	_, err = n.LogMetrics([]string{"none"})
	requireReason(t, record.LogNotFound, err)
	_, err = n.LogMetrics([]string{"[a"})
	requireReason(t, record.Invalid, err)
}

// Names, not Raft's numbers; and one line when many change at once.
func TestANewLeaderIsLoggedInPlainWords(t *testing.T) {
	t.Parallel()
	said := &lines{}
	n, err := Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), Logger: said.logger()})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	create(t, n, "orders", settings.Config{})
	require.Eventually(t, func() bool { return said.count(`msg="this node leads a log" log=orders term=`) == 1 }, time.Minute, 10*time.Millisecond)
	n.ticking.Stop() // it would log a part of them
	for i := range replicas.NewsLines + 5 {
		h := &hosted.Log{Calls: hosted.Calls{Name: fmt.Sprint("many-", i)}, ID: uint64(100 + i), ReplicaID: 1}
		n.leaderNews.LeaderChanged(h, core.Status{}, core.Status{Leader: 1, Leading: true, Term: 3})
	}
	n.leaderNews.Log()
	require.Equal(t, 1, said.count("the leaders of many logs have changed"))
	require.Zero(t, said.count("log=many-"))
	require.Zero(t, said.count("raft:"), "what Raft says is for those who debug it")
}

// A node asks in the name of another one, over a connection that proves its own.
func TestARequestInTheNameOfAnotherNodeIsRefused(t *testing.T) {
	t.Parallel()
	c := newWaiting(t, func(o *settings.Options) {
		o.FormAlone = o.Name == "a"
		other := map[string]string{"a": "d", "d": "a"}[o.Name]
		o.Prove = func(net.Conn, string) (string, error) { return other, nil }
	}, "a", "d")
	c.eventually("a forms its cluster", func() bool { return c.nodes["a"].catalog.Load() != nil })
	ask := func(kind string, request any) error {
		return c.nodes["d"].caller.AskAddress(t.Context(), c.addresses["a"], kind, request, nil)
	}
	forged := func() float64 { return testutil.ToFloat64(c.nodes["a"].metrics.Forged) }
	require.ErrorContains(t, ask(peers.AskJoin, cluster.JoinRequest{Name: "e", Address: "127.0.0.1:1", Nonce: "n"}), "that of node/d, but the request is from node/e")
	require.EqualValues(t, 1, forged())
	require.ErrorContains(t, ask(peers.AskRenewCatalog, replicas.RenewCatalogRequest{Name: "a", NodeID: 1}), "that of node/d, but the request is from node/a")
	require.EqualValues(t, 2, forged())
	if err := ask(peers.AskJoin, cluster.JoinRequest{Name: "d", Address: c.addresses["d"], Nonce: "n", Levels: cluster.Understood}); err != nil {
		require.NotContains(t, err.Error(), "certificate", "it is judged as every other one")
	}
	require.EqualValues(t, 2, forged())
}

func TestANodeWithANewIDAndAnOldNameIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	a := c.nodes["a"]
	hello := peer.Hello{Cluster: a.ClusterID(), Levels: peer.Levels(cluster.Understood), Node: peer.Node{ID: 99, Name: "b", Address: "127.0.0.1:1"}}
	require.ErrorContains(t, a.admission.Admit(hello), "is the name of another node")
	hello.Node.Name = "e"
	require.NoError(t, a.admission.Admit(hello), "it may be newer than what is known here")
}
