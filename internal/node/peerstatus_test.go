package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/transport/peer"
)

func TestARefusalIsReportedOnceForEachNodeUntilItsReasonChanges(t *testing.T) {
	said := &lines{}
	n := newNode(Options{Logger: said.logger()}, nil, nil, nil)
	a, b := peer.Node{ID: 1, Name: "a"}, peer.Node{ID: 2, Name: "b"}
	n.me.Store(&datadir.Identity{NodeID: 3, Seeds: []cluster.Node{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}}})
	n.catalog.Store(n.opener.newCatalog(nil))
	for range 3 {
		n.peers.refusedBy(a, "node 3 was removed")
		n.peers.refusedBy(b, "no node with id 3 is known here")
	}
	require.Equal(t, 2, said.count("another node refuses this one"))
	n.peers.refusedBy(b, "node 3 was removed")
	require.Equal(t, 3, said.count("another node refuses this one"))
	require.ErrorContains(t, n.Ready(), "was removed")

	n.peers.status.changed(a.ID, true)
	require.Empty(t, n.peers.status.refusal())
	n.peers.status.changed(a.ID, false)
	n.peers.refusedBy(a, "node 3 was removed")
	require.Equal(t, 4, said.count("another node refuses this one"), "there was a connection in between")

	for id := range uint64(1000) {
		n.peers.refusedBy(peer.Node{ID: 100 + id}, "another cluster")
	}
	require.Len(t, n.peers.status.byID, 3, "what unknown peers say is remembered once")
}
