package cluster

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// startInPlaces starts a cluster whose nodes a, b, c, ... are in datacenters of their names.
func startInPlaces(t T, nodes int) *Cluster {
	t.Helper()
	c := Start(t, Options{Nodes: nodes})
	for _, n := range c.Nodes() {
		n.SetFlags("--label", "dc="+n.Name())
		n.Restart()
	}
	c.Await("all nodes to have labels", func(s *client.ClusterStatus) string {
		for _, n := range s.Nodes {
			if !slices.Equal(n.Labels, []string{"dc=" + n.Name}) {
				return fmt.Sprint(n)
			}
		}
		return ""
	})
	c.AwaitHealthy()
	return c
}

// awaitLedBy waits until a node leads a log, and returns how long that took.
func (c *Cluster) awaitLedBy(log, node string) time.Duration {
	c.t.Helper()
	began := time.Now()
	c.Await(node+" to lead "+log, func(s *client.ClusterStatus) string {
		if l := FindLog(s, log); l == nil || l.Leader != node {
			return fmt.Sprint(l)
		}
		return ""
	})
	return time.Since(began)
}

// The leader is where the log says, goes to the second choice when that is gone, and comes
// home within 10 s, without a failed append; a drained node hands over what it leads.
func TestLeadershipGoesHomeAndAwayFromADrainedNode(t *testing.T) {
	t.Parallel()
	c := startInPlaces(t, 3)
	c.CreateLog("orders", client.LogConfig{Replicas: 3, Rule: &client.PlacementRule{Spread: "dc", LeaderHomes: []string{"dc=b", "dc=c"}}})
	l := c.Load(LoadOptions{Log: "orders", Writers: 2, Rate: 100})
	c.awaitLedBy("orders", "b")
	home := c.Node("b")
	home.Kill()
	c.awaitLedBy("orders", "c")
	l.Await(20)
	// What docs/recovery.md says of a datacenter that is lost.
	lost := regexp.MustCompile(`(?ms)^b +\S+ +no .*^orders +no +c .* unreachable `)
	c.awaitQuiet("the loss to be shown", func() bool { return lost.MatchString(c.Command("cluster", "status")) })
	home.Start()
	took := c.awaitLedBy("orders", "b")
	t.Logf("home %v after it was started", took.Round(100*time.Millisecond))
	require.Less(t, took, 4*time.Minute, "10 s on a machine that has nothing else to do")
	c.Command("cluster", "status", "--wait-healthy", "--timeout", Patience.String())

	text := c.Command("cluster", "drain", "b")
	require.Contains(t, text, "node b leads nothing and may be stopped")
	c.awaitQuiet("a drained node that stays without leaderships", func() bool { // it can be elected when others stall
		before := c.termsOf()
		status := c.Command("cluster", "status")
		l.Await(20)
		return c.Leader("orders") != "b" && c.Leader("_catalog") != "b" && maps.Equal(before, c.termsOf()) &&
			strings.Contains(status, "node b is drained: it may be stopped")
	})
	c.Command("cluster", "undrain", "b")
	c.awaitLedBy("orders", "b")
	require.Zero(t, l.Stop().FailedCalls(), "%s", l.Report())
	l.Verify()
}

// BenchmarkLeadersAfterARollingRestart reports how many seconds after the last of five nodes
// was started no node leads more than 1.3 times its share.
func BenchmarkLeadersAfterARollingRestart(b *testing.B) {
	c := Start(b, Options{Nodes: 5})
	c.createMany(spreadLogs)
	for b.Loop() {
		for _, n := range c.Nodes() {
			n.Restart()
			c.AwaitHealthy()
		}
		began := time.Now()
		c.Await("leaders to be spread", func(s *client.ClusterStatus) string {
			led := ledBy(s)
			for _, n := range led {
				if float64(n) > 1.3*spreadLogs/5 {
					return fmt.Sprint(led)
				}
			}
			if led[""] > 0 {
				return fmt.Sprint(led)
			}
			return ""
		})
		b.ReportMetric(time.Since(began).Seconds(), "s/spread")
	}
}
