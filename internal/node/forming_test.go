package node

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

func TestANodeThatAsksToBeTakenInFormsNoCluster(t *testing.T) {
	c := newCluster(t, "a", "b")
	c.start("x", []string{"127.0.0.1:1"}) // nobody is there
	_, err := c.nodes["x"].InitCluster(t.Context(), anyone)
	requireReason(t, record.Precondition, err)
	require.ErrorContains(t, err, "without --peers")
	require.False(t, c.nodes["x"].me.Load().Member())
}

func TestACallToFormIsPassedOnToTheOneThatForms(t *testing.T) {
	c := newWaiting(t, nil, "a", "b", "c")
	all := make([]membership.Formation, 3)
	failed := make([]error, len(all))
	var asking sync.WaitGroup
	for i, name := range []string{"c", "b", "a"} {
		asking.Go(func() { all[i], failed[i] = c.nodes[name].InitCluster(t.Context(), anyone) })
	}
	asking.Wait()
	require.NoError(t, errors.Join(failed...))
	c.healthy()
	for _, formed := range all {
		require.Empty(t, formed.Missing)
		require.Equal(t, c.nodes["a"].ClusterID(), formed.ClusterID)
	}
	again, err := c.nodes["b"].InitCluster(t.Context(), anyone)
	require.NoError(t, err)
	require.Equal(t, membership.Formation{ClusterID: c.nodes["a"].ClusterID(), Existed: true}, again)
}

func TestNoClusterIsFormedWithoutTheOneThatForms(t *testing.T) {
	c := newWaiting(t, nil, "a", "b", "c")
	c.stop("a")
	_, err := c.nodes["b"].InitCluster(t.Context(), anyone)
	requireReason(t, record.Busy, err)
	require.ErrorContains(t, err, `node "a" forms the cluster`)
	c.start("a", nil)
	c.stop("c")
	_, err = c.nodes["b"].InitCluster(t.Context(), anyone)
	requireReason(t, record.Busy, err)
	require.ErrorContains(t, err, `node "c" does not answer`)
}

// Each of them would be the lowest of its own.
func TestNodesWhosePeersDifferFormNoCluster(t *testing.T) {
	c := newWaiting(t, nil, "a", "b", "c")
	c.adjust = func(o *settings.Options) { delete(o.Peers, "a") }
	c.stop("b")
	c.start("b", nil)
	for _, name := range []string{"a", "b", "c"} {
		_, err := c.nodes[name].InitCluster(t.Context(), anyone)
		requireReason(t, record.Precondition, err)
		require.ErrorContains(t, err, "must name the same nodes")
	}
}
