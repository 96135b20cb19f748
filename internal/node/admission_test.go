package node

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

// strictly runs nodes that nobody announces, with a short patience for lost ones.
func strictly(t *testing.T, names ...string) *testCluster {
	c := newClusterWith(t, func(o *settings.Options) { o.LostAfter = time.Second }, names...)
	c.strict = true
	return c
}

// votersOfCatalog are the names of the nodes that vote on the catalog, as Raft of
// its leader has it; none between two configurations.
func (c *testCluster) votersOfCatalog() (names []string) {
	s := c.nodes[c.leader(cluster.CatalogName)].catalog.Load().Host().Replica.Status()
	if len(s.Outgoing) > 0 {
		return nil
	}
	for name, n := range c.nodes {
		if slices.Contains(s.Voters, n.me.Load().CatalogReplica) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// As a container whose name is new at each restart: none of them becomes a member.
func TestNodesThatNobodyExpectsAreRefused(t *testing.T) {
	t.Parallel()
	c := strictly(t, "a", "b", "c")
	for i := range 5 {
		name := fmt.Sprint("pod-", i)
		c.start(name, []string{c.addresses["a"]})
		var answer cluster.JoinAnswer
		err := c.nodes[name].caller.AskAddress(t.Context(), c.addresses["a"], peers.AskJoin,
			cluster.JoinRequest{Name: name, Address: c.addresses[name], Nonce: "n", Levels: cluster.Understood}, &answer)
		requireReason(t, record.Precondition, err)
		require.ErrorContains(t, err, "add-node "+name)
		require.False(t, c.nodes[name].me.Load().Member())
		c.stop(name)
	}
	state := c.nodes["a"].catalog.Load().Shown.Load()
	require.Len(t, state.Nodes, 3)
	require.Equal(t, []string{"a", "b", "c"}, c.votersOfCatalog())
}

func TestANodeThatIsAddedJoinsAndSaysIfItWasThere(t *testing.T) {
	t.Parallel()
	c := strictly(t, "a", "b", "c")
	c.start("d", []string{c.addresses["a"]})
	existed, err := c.nodes["b"].AddNode(t.Context(), anyone, "d", c.addresses["d"])
	require.NoError(t, err)
	require.False(t, existed)
	existed, err = c.nodes["c"].AddNode(t.Context(), anyone, "a", c.addresses["a"])
	require.NoError(t, err)
	require.True(t, existed)

	_, err = c.nodes["a"].AddNode(t.Context(), anyone, "e", "127.0.0.1:1")
	requireReason(t, record.Busy, err)
	require.Empty(t, c.nodes["a"].catalog.Load().Shown.Load().Announced, "nobody may come under a name that was mistyped")
	c.start("f", []string{"127.0.0.1:1"})
	_, err = c.nodes["a"].AddNode(t.Context(), anyone, "e", c.addresses["f"])
	requireReason(t, record.Precondition, err)
	require.ErrorContains(t, err, `has the name "f"`)
}

func TestATokenLetsNodesJoin(t *testing.T) {
	t.Parallel()
	c := strictly(t, "a")
	token, expires, err := c.nodes["a"].CreateToken(t.Context(), anyone, time.Hour, false)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), expires, time.Minute)
	for hash := range c.nodes["a"].catalog.Load().Shown.Load().Tokens {
		require.NotContains(t, hash, token)
	}
	c.adjust = func(o *settings.Options) { o.JoinToken = token }
	c.start("x", []string{c.addresses["a"]})
	c.eventually("x is a member", func() bool { return c.nodes["x"].catalog.Load() != nil })
	c.start("y", []string{c.addresses["a"]})
	err = c.nodes["y"].caller.AskAddress(t.Context(), c.addresses["a"], peers.AskJoin,
		cluster.JoinRequest{Name: "y", Address: c.addresses["y"], Nonce: "n", Token: token, Levels: cluster.Understood}, nil)
	requireReason(t, record.Precondition, err)
	require.ErrorContains(t, err, "was used by another node")
	require.False(t, c.nodes["y"].me.Load().Member())
	for _, lifetime := range []time.Duration{0, 31 * 24 * time.Hour} {
		_, _, err = c.nodes["a"].CreateToken(t.Context(), anyone, lifetime, false)
		requireReason(t, record.Invalid, err)
	}
}

func TestAnAnnouncementIsWithdrawn(t *testing.T) {
	t.Parallel()
	c := strictly(t, "a")
	require.NoError(t, c.nodes["a"].roll.Announce(t.Context(), "d"))
	require.Contains(t, c.nodes["a"].catalog.Load().Shown.Load().Announced, "d")
	require.NoError(t, c.nodes["a"].RemoveNode(t.Context(), anyone, "d"))
	require.Empty(t, c.nodes["a"].catalog.Load().Shown.Load().Announced)
}

func TestAVoterOfTheCatalogThatIsLostIsReplaced(t *testing.T) {
	t.Parallel()
	c := strictly(t, "a", "b", "c")
	c.strict = false
	c.start("d", []string{c.addresses["a"]})
	c.eventually("d is a member", func() bool { return c.nodes["d"].catalog.Load() != nil })
	c.healthy()
	// d may have come in for one that was slow.
	var voters []string
	c.eventually("of four nodes three vote", func() bool {
		voters = c.votersOfCatalog()
		return len(voters) == 3
	})
	lost := voters[1]
	c.stop(lost)
	rest := slices.DeleteFunc([]string{"a", "b", "c", "d"}, func(name string) bool { return name == lost })
	c.eventually("the fourth votes in the place of "+lost, func() bool { return slices.Equal(rest, c.votersOfCatalog()) })
	// The catalog has a majority without another voter, too.
	leader := c.leader(cluster.CatalogName)
	second := rest[(slices.Index(rest, leader)+1)%len(rest)]
	c.stop(second)
	_, err := c.createLog(leader, "orders", settings.Config{Replicas: 1})
	require.NoError(t, err)
	c.start(lost, nil)
	c.start(second, nil)
	c.healthy()
}

func TestANodeThatAsksToBeTakenInFormsNoCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.start("x", []string{"127.0.0.1:1"}) // nobody is there
	_, err := c.nodes["x"].InitCluster(t.Context(), anyone)
	requireReason(t, record.Precondition, err)
	require.ErrorContains(t, err, "without --peers")
	require.False(t, c.nodes["x"].me.Load().Member())
}

func TestACallToFormIsPassedOnToTheOneThatForms(t *testing.T) {
	t.Parallel()
	c := newWaiting(t, nil, "a", "b", "c")
	all := make([]membership.Formation, 3)
	failed := make([]error, len(all))
	began := time.Now()
	var asking sync.WaitGroup
	for i, name := range []string{"c", "b", "a"} {
		asking.Go(func() { all[i], failed[i] = c.form(name) })
	}
	asking.Wait()
	took := time.Since(began)
	require.NoError(t, errors.Join(failed...))
	c.healthy()
	for _, formed := range all {
		if took < 15*time.Second { // for which they are waited for
			require.Empty(t, formed.Missing)
		}
		for _, name := range formed.Missing {
			c.eventually(name+" comes", func() bool { return c.nodes[name].me.Load().Member() })
		}
		require.Equal(t, c.nodes["a"].ClusterID(), formed.ClusterID)
	}
	again, err := c.nodes["b"].InitCluster(t.Context(), anyone)
	require.NoError(t, err)
	require.Equal(t, membership.Formation{ClusterID: c.nodes["a"].ClusterID(), Existed: true}, again)
}

// unformed is why no cluster is formed, other than that a node is slow that runs.
func (c *testCluster) unformed(on string) (err error) {
	c.t.Helper()
	c.eventually("the nodes that run answer", func() bool {
		_, err = c.nodes[on].InitCluster(c.t.Context(), anyone)
		require.Error(c.t, err)
		for name := range c.nodes {
			if contains(err, fmt.Sprintf("node %q, which forms the cluster", name)) || contains(err, fmt.Sprintf("node %q does not answer", name)) {
				return false
			}
		}
		return !errors.Is(err, &record.Refusal{Reason: record.OutcomeUnknown})
	})
	return err
}

func TestNoClusterIsFormedWithoutTheOneThatForms(t *testing.T) {
	t.Parallel()
	c := newWaiting(t, nil, "a", "b", "c")
	c.stop("a")
	err := c.unformed("b")
	requireReason(t, record.Busy, err)
	require.ErrorContains(t, err, `node "a", which forms the cluster`)
	c.start("a", nil)
	c.stop("c")
	err = c.unformed("b")
	requireReason(t, record.Busy, err)
	require.ErrorContains(t, err, `node "c" does not answer`)
}

// Each of them would be the lowest of its own.
func TestNodesWhosePeersDifferFormNoCluster(t *testing.T) {
	t.Parallel()
	c := newWaiting(t, nil, "a", "b", "c")
	c.adjust = func(o *settings.Options) { delete(o.Peers, "a") }
	c.stop("b")
	c.start("b", nil)
	for _, name := range []string{"a", "b", "c"} {
		_, err := c.form(name)
		requireReason(t, record.Precondition, err)
		require.ErrorContains(t, err, "start all with the same nodes")
	}
}
