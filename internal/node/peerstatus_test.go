package node

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/transport/peer"
)

func TestARefusalIsReportedOnceForEachNodeUntilItsReasonChanges(t *testing.T) {
	said := &lines{}
	n := newNode(settings.Options{Logger: said.logger()}, nil, new(atomic.Pointer[datadir.Identity]), nil, nil)
	a, b := peer.Node{ID: 1, Name: "a"}, peer.Node{ID: 2, Name: "b"}
	n.me.Store(&datadir.Identity{NodeID: 3, Seeds: []cluster.Node{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}}})
	n.catalog.Store(n.opener.NewCatalog(nil))
	for range 3 {
		n.Peers.RefusedBy(a, "node 3 was removed")
		n.Peers.RefusedBy(b, "no node with id 3 is known here")
	}
	require.Equal(t, 2, said.count("another node refuses this one"))
	n.Peers.RefusedBy(b, "node 3 was removed")
	require.Equal(t, 3, said.count("another node refuses this one"))
	require.ErrorContains(t, n.Ready(), "was removed")

	n.Peers.Status.Changed(a.ID, true)
	require.Empty(t, n.Peers.Status.Refusal())
	n.Peers.Status.Changed(a.ID, false)
	n.Peers.RefusedBy(a, "node 3 was removed")
	require.Equal(t, 4, said.count("another node refuses this one"), "there was a connection in between")

	for id := range uint64(1000) {
		n.Peers.RefusedBy(peer.Node{ID: 100 + id}, "another cluster")
	}
	require.Len(t, n.Peers.Status.ByID, 3, "what unknown peers say is remembered once")
}
