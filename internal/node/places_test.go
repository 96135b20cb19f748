package node

import (
	"maps"
	"slices"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/verbs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

// Replicas move until the rule of their log is kept, and the status says what is missing.
func TestReplicasFollowTheLabelsOfTheirNodes(t *testing.T) {
	t.Parallel()
	at := map[string]cluster.Label{"a": "dc=x", "b": "dc=y", "c": "dc=z", "d": "dc=z"}
	c := newClusterWith(t, func(o *settings.Options) {
		if at[o.Name] != "" {
			o.Labels = []cluster.Label{at[o.Name]}
		}
		o.RelabelAfter = time.Second
	}, slices.Sorted(maps.Keys(at))...)
	n := c.nodes["a"]
	logOf := func(name string) verbs.LogStatus {
		status, err := n.ClusterStatus(t.Context(), anyone)
		require.NoError(t, err)
		for _, l := range status.Logs {
			if l.Name == name {
				return l
			}
		}
		return verbs.LogStatus{}
	}

	_, err := c.createLog("a", "orders", settings.Config{Rule: &cluster.Rule{In: []cluster.Label{"dc=nowhere"}}})
	require.ErrorIs(t, err, &record.Refusal{Reason: record.Precondition})
	_, err = c.createLog("a", "orders", settings.Config{Replicas: 2, Rule: &cluster.Rule{In: []cluster.Label{"dc=z"}}})
	require.NoError(t, err)
	require.Equal(t, []string{"c", "d"}, voters(logOf("orders")))

	require.NoError(t, c.retried("the default rule is set", func() error {
		return n.SetDefaultRule(t.Context(), anyone, "", cluster.Rule{Spread: "dc"})
	}))
	require.NoError(t, c.retried("the log is configured", func() error {
		_, err := n.ConfigureLog(t.Context(), anyone, "orders", settings.Config{Replicas: 3, Rule: new(cluster.Rule)})
		return err
	}))
	spread := func() bool {
		l := logOf("orders")
		on := voters(l)
		return l.Healthy && len(on) == 3 && on[0] == "a" && on[1] == "b"
	}
	c.eventually("the default rule to hold for a log without one", spread)
	require.Equal(t, &cluster.Rule{Spread: "dc"}, logOf("orders").Rule)

	// A node that comes back elsewhere: two datacenters are left, and both have one.
	for _, name := range []string{"a", "b"} {
		at[name] = ""
		c.stop(name)
		c.start(name, nil)
	}
	n = c.nodes["c"]
	c.eventually("the status to say what is missing", func() bool {
		l := logOf("orders")
		return !l.Healthy && slices.Contains(l.Unmet, "all nodes that may hold voters have dc=z, but two values of dc are needed")
	})
}

// Otherwise a log could be put there that its rule keeps off such nodes.
func TestANodeHasItsLabelsAsSoonAsItIsAMember(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *settings.Options) { o.Labels = []cluster.Label{cluster.Label("dc=" + o.Name)} }, "a")
	c.start("b", []string{c.addresses["a"]})
	var members []membership.Member
	c.eventually("b is a member", func() bool {
		members, _ = c.nodes["a"].Members()
		return len(members) == 2
	})
	require.Equal(t, []cluster.Label{"dc=b"}, members[1].Labels)
}

// Else a log that is to be spread over them would be refused right after its cluster was formed. Nodes that have
// not heard of all yet ask before they refuse.
func TestAClusterIsFormedWithTheLabelsOfItsNodes(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *settings.Options) { o.Labels = []cluster.Label{cluster.Label("dc=" + o.Name)} }, "a", "b", "c")
	members, _ := c.nodes["a"].Members()
	require.Len(t, members, 3)
	for _, m := range members {
		require.Equal(t, []cluster.Label{cluster.Label("dc=" + m.Name)}, m.Labels)
	}
	for _, at := range []string{"c", "b", "a"} {
		_, err := c.nodes[at].CreateLog(t.Context(), anyone, "orders-"+at, settings.Config{Replicas: 3, Rule: &cluster.Rule{Spread: "dc"}})
		require.NoError(t, err)
	}
}

// A read replica has what the voters have, serves it without them, and is no part of their majority.
func TestAReadReplicaIsNoPartOfAMajority(t *testing.T) {
	t.Parallel()
	for _, durability := range []settings.Durability{settings.Disk, settings.Memory} {
		t.Run(durability.String(), func(t *testing.T) {
			c := newClusterWith(t, func(o *settings.Options) {
				o.Labels = []cluster.Label{cluster.Label("dc=" + o.Name)}
			}, "a", "b", "s")
			rule := &cluster.Rule{Readers: []cluster.ReadReplicas{{Label: "dc=s", Count: 1}}}
			_, err := c.createLog("a", "orders", settings.Config{Durability: durability, Replicas: 2, Rule: rule})
			require.NoError(t, err)
			known := reading.Request{Consistency: reading.ConsistencyAny}
			c.append("orders", "one")
			has := func(want ...string) {
				t.Helper()
				c.eventually("the read replica has what was appended", func() bool {
					texts, err := c.valuesNow("s", "orders", known)
					return err == nil && slices.Equal(texts, want)
				})
			}
			has("one")
			texts, err := c.values("s", "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
			require.NoError(t, err)
			require.Equal(t, []string{"one"}, texts)

			find := func() (l verbs.LogStatus) {
				status, err := c.nodes["a"].ClusterStatus(t.Context(), anyone)
				require.NoError(t, err)
				at := slices.IndexFunc(status.Logs, func(l verbs.LogStatus) bool { return l.Name == "orders" })
				return status.Logs[at]
			}
			c.eventually("the status shows it", func() bool {
				l := find()
				at := slices.IndexFunc(l.Replicas, func(r verbs.ReplicaStatus) bool { return r.Node == "s" })
				return l.Healthy && len(voters(l)) == 2 && len(l.Unmet) == 0 && l.Replicas[at].Role == verbs.ReadReplica && l.Replicas[at].State == verbs.Replicating && l.Replicas[at].Lag == 0
			})
			for led, round := false, 0; !led; round++ {
				require.Less(t, round, reigns)
				leader, lasts := c.reign("orders")
				raft := c.nodes[leader].logs.Named("orders").Replica.Status()
				metrics := c.logMetrics(leader, "orders")
				info, err := c.nodes[leader].Info(t.Context(), anyone, "orders")
				if led = lasts(); !led {
					continue
				}
				require.NoError(t, err)
				require.Len(t, raft.Voters, 2)
				require.Len(t, raft.Learners, 1)
				require.Contains(t, metrics, "log_read_replica_lag_records{log=orders,node=s}")
				require.NotContains(t, metrics, "log_follower_lag_records{log=orders,node=s}")
				require.Len(t, info.Replicas, 3)
				require.True(t, info.Replicas[2].Reader)
				require.NotNil(t, info.Replicas[2].Lag)
			}

			// It comes back, in memory under a new id, and the log is healthy meanwhile.
			c.stop("s")
			c.append("orders", "two")
			c.eventually("the log is healthy without it", func() bool { return find().Healthy })
			c.start("s", nil)
			has("one", "two")
			if durability == settings.Memory {
				return
			}

			// One voter and a read replica are two of three, and no majority.
			c.stop("b")
			c.eventually("the log has no leader", func() bool {
				s := c.nodes["a"].logs.Named("orders").Replica.Status()
				return !s.Leading && s.Leader == 0
			})
			has("one", "two")
			c.start("b", nil)
			c.append("orders", "three")
			has("one", "two", "three")
			require.NotEqual(t, "s", c.leader("orders"))
		})
	}
}

// Where the others have reasons not to lead either, a log would go to and fro for ever.
func TestADrainedNodeHandsALogOverLessAndLessOften(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *settings.Options) { o.KeepLeaders = true }, "a", "b", "c")
	_, err := c.createLog("b", "orders", settings.Config{})
	require.NoError(t, err)
	c.healthy()
	require.NoError(t, c.retried("a is drained", func() error { return c.nodes["b"].DrainNode(t.Context(), anyone, "a", false) }))
	drained, _ := c.replicaOf("a", "orders")
	began, turns := time.Now(), 0
	for turns < 5 {
		leader := c.nodes[c.leader("orders", "a")].logs.Named("orders").Replica
		term, next := leader.Status().Term, uint64(0)
		if leader.HandOver(t.Context(), drained) != nil {
			continue // a has yet to catch up
		}
		c.eventually("another leads again", func() bool {
			next = c.nodes[c.leader("orders", "a")].logs.Named("orders").Replica.Status().Term
			return next > term
		})
		if next == term+2 { // that of a lies between; a machine that is slow may hold other elections
			turns++
		}
	}
	require.Greater(t, time.Since(began), (1+2+4+8)*background.LookEvery)
}

// voters are the nodes whose replicas vote.
func voters(l verbs.LogStatus) (nodes []string) {
	for _, r := range l.Replicas {
		if r.Role == verbs.Voter {
			nodes = append(nodes, r.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}
