package node

import (
	"net"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/transport/peer"
)

// A node asks in the name of another one, over a connection that proves its own.
func TestARequestInTheNameOfAnotherNodeIsRefused(t *testing.T) {
	c := newWaiting(t, func(o *settings.Options) {
		o.FormAlone = o.Name == "a"
		o.Prove = func(net.Conn, string) (string, error) { return "d", nil }
	}, "a", "d")
	c.eventually("a forms its cluster", func() bool { return c.nodes["a"].catalog.Load() != nil })
	ask := func(kind string, request any) error {
		return c.nodes["d"].Joiner.Caller.AskAddress(t.Context(), c.addresses["a"], kind, request, nil)
	}
	forged := func() float64 { return testutil.ToFloat64(c.nodes["a"].metrics.Forged) }
	require.ErrorContains(t, ask(peers.AskJoin, cluster.JoinRequest{Name: "e", Address: "127.0.0.1:1", Nonce: "n"}), "that of node/d, and it asks as node/e")
	require.EqualValues(t, 1, forged())
	require.ErrorContains(t, ask(peers.AskRenewCatalog, replicas.RenewCatalogRequest{Name: "a", NodeID: 1}), "that of node/d, and it asks as node/a")
	require.EqualValues(t, 2, forged())
	if err := ask(peers.AskJoin, cluster.JoinRequest{Name: "d", Address: c.addresses["d"], Nonce: "n", Levels: cluster.Understood}); err != nil {
		require.NotContains(t, err.Error(), "certificate", "it is judged as every other one")
	}
	require.EqualValues(t, 2, forged())
}

func TestANodeWithANewIDAndAnOldNameIsRefused(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	a := c.nodes["a"]
	hello := peer.Hello{Cluster: a.ClusterID(), Levels: peer.Levels(cluster.Understood), Node: peer.Node{ID: 99, Name: "b", Address: "127.0.0.1:1"}}
	require.ErrorContains(t, a.Peers.Admit(hello), "is the name of another node")
	hello.Node.Name = "e"
	require.NoError(t, a.Peers.Admit(hello), "it may be newer than what is known here")
}
