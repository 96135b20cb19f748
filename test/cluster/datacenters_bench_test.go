package cluster

import (
	"flag"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

var losses = flag.Int("datacenters.losses", 10, "how often the leader is lost, in BenchmarkDatacenters")

var atHome = client.LogConfig{Replicas: 3, Rule: &client.PlacementRule{Spread: "dc", LeaderHomes: []string{"dc=fra"}}}

// BenchmarkDatacenters measures three datacenters of two nodes, at a round trip of 0, 35 and 140 ms
// between any two of them: the client and the leader are in the first.
//
//	go test ./test/cluster -run - -bench Datacenters -benchtime 1x -timeout 1h
func BenchmarkDatacenters(b *testing.B) {
	place := func(node string) string { return []string{"fra", "ams", "par"}[(node[0]-'a')%3] }
	local := 0.0
	for _, trip := range []time.Duration{0, 35 * time.Millisecond, 140 * time.Millisecond} {
		b.Run(fmt.Sprint("trip=", trip), func(b *testing.B) {
			c := Start(b, Options{Nodes: 6, Place: place})
			c.CreateLog("orders", atHome)
			c.AwaitHealthy()
			for i, one := range c.Nodes() {
				for _, other := range c.Nodes()[:i] {
					if place(one.name) != place(other.name) {
						c.Delay(one.name, other.name, trip/2)
					}
				}
			}
			home := c.awaitHome("orders", place)
			b.Run("append", func(b *testing.B) {
				p, err := home.Client().Producer(b.Context(), "orders")
				require.NoError(b, err)
				var took []time.Duration
				for range 100 {
					began := time.Now()
					_, err := p.Append(b.Context(), []byte("one at a time"))
					require.NoError(b, err)
					took = append(took, time.Since(began))
				}
				require.NoError(b, p.Close(b.Context()))
				report(b, "append", took)
			})
			b.Run("pipelined", func(b *testing.B) {
				rate := pipelined(b, home)
				b.ReportMetric(rate/(1<<20), "MiB/s")
				if trip == 0 {
					local = rate
				}
				b.ReportMetric(rate/local, "of-local")
			})
			b.Run("read", func(b *testing.B) { c.readNear(b, home) })
			b.Run("create", func(b *testing.B) {
				var took []time.Duration
				for i := range 5 {
					began := time.Now()
					_, err := home.Client().Admin().CreateLog(b.Context(), fmt.Sprint("log-", i), client.LogConfig{Replicas: 3})
					require.NoError(b, err)
					took = append(took, time.Since(began))
				}
				report(b, "create", took)
			})
			b.Run("lose-datacenter", func(b *testing.B) { c.lose(b, place, true) })
			if trip == 0 {
				b.Run("kill-leader", func(b *testing.B) { c.lose(b, place, false) })
			}
		})
	}
}

// awaitHome waits until the leader of a log is at home, and returns it.
func (c *Cluster) awaitHome(log string, place func(string) string) *Node {
	c.t.Helper()
	leader := ""
	c.Await("the leader to be at home", func(*client.ClusterStatus) string {
		if leader = c.Leader(log); leader == "" || place(leader) != "fra" {
			return "it is " + leader
		}
		return ""
	})
	return c.Node(leader)
}

// lose kills the leader, or all nodes of its datacenter, again and again, and reports the gaps in the
// acknowledgements and how soon the leader was at home again after the first time. It does not wait
// for that later: a home that is lost again and again is given back its leader ever later.
func (c *Cluster) lose(b *testing.B, place func(string) string, all bool) {
	log := fmt.Sprint("lost-", all)
	c.CreateLog(log, atHome)
	l := c.Load(LoadOptions{Log: log, Writers: 4, Rate: 500, Readers: -1})
	var gaps []time.Duration
	for i := range *losses {
		leader := c.Node(c.awaitLeader(log))
		if i == 0 {
			leader = c.awaitHome(log, place)
		}
		l.Await(200)
		var lost []*Node
		for _, n := range c.Nodes() {
			if n == leader || all && place(n.name) == place(leader.name) {
				lost = append(lost, n)
			}
		}
		l.BeginGap()
		c.KillTogether(lost...)
		l.Await(100)
		gaps = append(gaps, l.Gap())
		c.StartTogether(lost...)
		began := time.Now()
		if i == 0 && all {
			c.awaitHome(log, place)
			b.ReportMetric(time.Since(began).Seconds()*1000, "home-ms")
		}
		c.AwaitHealthy()
	}
	require.Zero(b, l.Stop().FailedCalls(), "%s", l.Report())
	l.verifyOn(c.holders(log)...)
	report(b, "gap", gaps)
}

// holders are the nodes with replicas of a log.
func (c *Cluster) holders(log string) (nodes []*Node) {
	c.t.Helper()
	status, err := c.Status()
	require.NoError(c.t, err)
	for _, r := range FindLog(&status, log).Replicas {
		nodes = append(nodes, c.Node(r.Node))
	}
	return nodes
}

func (c *Cluster) awaitLeader(log string) (leader string) {
	c.t.Helper()
	c.Await("a leader", func(*client.ClusterStatus) string {
		if leader = c.Leader(log); leader == "" {
			return "there is none"
		}
		return ""
	})
	return leader
}

// readNear reads from a follower that is not in the leader's datacenter, as a client there does
// that has no connections to spare for others.
func (c *Cluster) readNear(b *testing.B, leader *Node) {
	var near *Node
	for _, n := range c.holders("orders") {
		if c.options.Place(n.name) != c.options.Place(leader.name) {
			near = n
		}
	}
	nearest := client.WithNearest("dc=" + c.options.Place(near.name))
	var took []time.Duration
	for range 100 {
		began := time.Now()
		r, err := near.Client().Reader(b.Context(), "orders", client.WithStartOffset(0), client.WithMaxRecords(1), nearest, client.WithMaxStaleness(10*time.Second))
		require.NoError(b, err)
		_, err = r.Next(b.Context())
		require.NoError(b, err)
		require.NoError(b, r.Close())
		took = append(took, time.Since(began))
	}
	report(b, "read", took)
}

// pipelined appends for some seconds as fast as it can, and returns the bytes a second.
func pipelined(b *testing.B, at *Node) float64 {
	p, err := at.Client().Producer(b.Context(), "orders")
	require.NoError(b, err)
	var acked atomic.Int64
	value := make([]byte, 1000)
	began := time.Now()
	for time.Since(began) < 8*time.Second {
		require.NoError(b, p.SendFunc(b.Context(), client.Record{Value: value}, func(_ int64, err error) {
			if err == nil {
				acked.Add(1)
			}
		}))
	}
	sent := time.Since(began)
	rate := float64(acked.Load()*int64(len(value))) / sent.Seconds()
	require.NoError(b, p.Close(b.Context()))
	return rate
}

// report shows the median and the longest of some times.
func report(b *testing.B, what string, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[len(took)/2].Seconds()*1000, what+"-p50-ms")
	b.ReportMetric(took[(len(took)*99+99)/100-1].Seconds()*1000, what+"-p99-ms")
}
