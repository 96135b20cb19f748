package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/transport/peer"
)

func TestARefusalIsToldOnceForEachNodeUntilItsReasonChanges(t *testing.T) {
	said := &lines{}
	n := &Node{logger: said.logger()}
	a, b := peer.Node{ID: 1, Name: "a"}, peer.Node{ID: 2, Name: "b"}
	n.me.Store(&identity{NodeID: 3, Seeds: []catalogNode{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}}})
	n.catalog.Store(newCatalog(n, nil))
	for range 3 {
		n.refusedBy(a, "node 3 was removed")
		n.refusedBy(b, "no node with id 3 is known here")
	}
	require.Equal(t, 2, said.count("another node refuses this one"))
	n.refusedBy(b, "node 3 was removed")
	require.Equal(t, 3, said.count("another node refuses this one"))
	require.ErrorContains(t, n.Ready(), "was removed")

	n.neighbours.changed(a.ID, true)
	require.Empty(t, n.neighbours.refusal())
	n.neighbours.changed(a.ID, false)
	n.refusedBy(a, "node 3 was removed")
	require.Equal(t, 4, said.count("another node refuses this one"), "there was a connection in between")

	for id := range uint64(1000) {
		n.refusedBy(peer.Node{ID: 100 + id}, "another cluster")
	}
	require.Len(t, n.neighbours.byID, 3, "what strangers say is remembered once")
}
