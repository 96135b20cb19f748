package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// The one that is created while the cluster is being formed is no different from
// those after.
func TestALogThatIsCreatedWhileTheClusterIsFormedGetsItsReplicas(t *testing.T) {
	t.Parallel()
	c := startWaiting(t, Options{Nodes: 3})
	ctx, cancel := WithPatience()
	defer cancel()
	formed := make(chan error, 1)
	go func() {
		_, err := c.nodes[2].Client().Admin().InitCluster(ctx)
		formed <- err
	}()
	admin := c.Client().Admin()
	info, err := admin.CreateLog(ctx, "early", client.LogConfig{}) // as soon as there is a member
	require.NoError(t, err)
	require.Equal(t, 3, info.Config.Replicas)
	require.NoError(t, <-formed)
	c.AwaitReplicas("early", "a", "b", "c")
}

// Appends continue while replicas come and go, and move onto new nodes.
func TestReplicasComeGoAndMoveUnderLoad(t *testing.T) {
	c, l := underLoad(t)
	ctx, cancel := WithPatience()
	defer cancel()
	admin := c.Client().Admin()
	configure := func(replicas int) {
		_, err := admin.ConfigureLog(ctx, "orders", client.LogConfig{Replicas: replicas})
		require.NoError(t, err)
		c.Await(fmt.Sprint(replicas, " replicas"), func(s *client.ClusterStatus) string {
			if log := FindLog(s, "orders"); len(log.Replicas) != replicas || !log.Healthy {
				return fmt.Sprintf("%+v", log)
			}
			return ""
		})
		l.Await(100)
	}
	configure(1)
	configure(3)
	for i := range 5 {
		c.CreateLog(fmt.Sprint("log", i), client.LogConfig{})
	}
	c.Join("d")
	require.Contains(t, c.Command("cluster", "rebalance", "--wait"), "spread evenly")
	c.Await("six logs of three replicas on four nodes", func(s *client.ClusterStatus) string { // a node may learn late of the last move
		held := map[string]int{}
		for _, log := range s.Logs {
			for _, r := range log.Replicas {
				if log.Name != "_catalog" {
					held[r.Node]++
				}
			}
		}
		for _, n := range c.Nodes() {
			if replicas := held[n.Name()]; replicas != 4 && replicas != 5 {
				return fmt.Sprint(held)
			}
		}
		return ""
	})
	configure(4) // so that every node can be read from
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}

const spreadLogs = 60

// A node that was stopped led nothing when it came back, for ever. It leads its share soon, in
// half a minute at most where the machine is not busy; no append has failed, and then every leader
// stays.
func TestLeadersAreSpreadAgainAfterARestart(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3})
	c.createMany(spreadLogs)
	var loads []*Load
	for i := range 3 {
		l := c.Load(LoadOptions{Log: spreadLog(i), Writers: 1, Rate: 100})
		l.Await(20)
		loads = append(loads, l)
	}
	c.awaitSpread()

	c.Node("b").Stop()
	c.Await("the others to lead what b led", func(s *client.ClusterStatus) string {
		if led := ledBy(s); led["b"] > 0 || led[""] > 0 {
			return fmt.Sprint(led)
		}
		return ""
	})
	c.Node("b").Start()
	began := time.Now()
	c.awaitSpread()
	t.Logf("spread %s after the restart", time.Since(began).Round(time.Second))

	// From here on, nobody hands over anything, unless the machine is so slow that a log elects
	// another leader, which may have to be spread anew.
	c.awaitQuiet("leaders that stay, and healthy logs", func() bool {
		c.AwaitHealthy()
		before := c.termsOf()
		healthy := c.staysHealthy(loads[0], 1000) // at 100/s, more than three more looks at who leads what
		return healthy && maps.Equal(before, c.termsOf())
	})
	for _, l := range loads {
		require.Zero(t, l.Stop().FailedCalls(), "%s", l.Report())
		l.Verify()
	}
}

func spreadLog(i int) string { return fmt.Sprintf("spread-%02d", i) }

// createMany makes logs, several at a time, and waits until all are healthy.
func (c *Cluster) createMany(logs int) {
	c.t.Helper()
	ctx, cancel := WithPatience()
	defer cancel()
	admin := c.Client().Admin()
	failed := make([]error, logs)
	places := make(chan struct{}, 8)
	var creating sync.WaitGroup
	for i := range logs {
		places <- struct{}{}
		creating.Go(func() {
			_, failed[i] = admin.CreateLog(ctx, spreadLog(i), client.LogConfig{Replicas: 3})
			<-places
		})
	}
	creating.Wait()
	for _, err := range failed {
		require.NoError(c.t, err)
	}
	c.AwaitHealthy()
}

// awaitSpread waits until each node leads the same number of logs, but for one.
func (c *Cluster) awaitSpread() {
	c.t.Helper()
	c.Await("leaders to be spread evenly", func(s *client.ClusterStatus) string {
		led := ledBy(s)
		counts := slices.Collect(maps.Values(led))
		if len(led) == len(c.nodes) && led[""] == 0 && slices.Max(counts)-slices.Min(counts) <= 1 {
			return ""
		}
		return fmt.Sprint(led)
	})
}

// awaitQuiet waits for a stretch of time in which nothing happened that must not happen by itself.
// A machine that is busy interrupts some of them; a cluster that does not come to rest, all.
func (c *Cluster) awaitQuiet(what string, quiet func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(Patience); !quiet(); {
		require.True(c.t, time.Now().Before(deadline), "waited %s for %s", Patience, what)
	}
}

// staysHealthy looks at the cluster until a load has so many more answers, and reports whether
// every log stayed healthy, idle ones above all.
func (c *Cluster) staysHealthy(l *Load, more int64) bool {
	c.t.Helper()
	looks := 0
	for goal := l.Acked() + more; l.Acked() < goal; {
		s, err := c.Status()
		require.NoError(c.t, err)
		if slices.ContainsFunc(s.Nodes, func(n client.NodeStatus) bool { return !n.Alive }) {
			continue // it took too long to answer, which says nothing of its logs
		}
		looks++
		if at := slices.IndexFunc(s.Logs, func(l client.LogStatus) bool { return !l.Healthy }); at >= 0 {
			c.t.Logf("not healthy at look %d: %+v", looks, s.Logs[at])
			return false
		}
	}
	c.t.Logf("healthy at %d looks", looks)
	return true
}

// ledBy counts the logs that each node leads; "": nobody.
func ledBy(s *client.ClusterStatus) map[string]int {
	led := map[string]int{}
	for _, l := range s.Logs {
		if strings.HasPrefix(l.Name, "spread-") {
			led[l.Leader]++
		}
	}
	return led
}

// termsOf are the terms of all logs: one rises whenever a leader changes.
func (c *Cluster) termsOf() map[string]uint64 {
	c.t.Helper()
	s, err := c.Status()
	require.NoError(c.t, err)
	terms := map[string]uint64{}
	for _, l := range s.Logs {
		terms[l.Name] = l.Term
	}
	return terms
}
