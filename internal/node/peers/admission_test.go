package peers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/transport/peer"
)

func TestWhoSharesThePastOfARecoveredClusterIsRefusedForIt(t *testing.T) {
	recovered := &datadir.Identity{ClusterID: "NEW", Former: []string{"OLDEST", "OLD"}, Seeds: []cluster.Node{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}}}
	old := &datadir.Identity{ClusterID: "OLD", Former: []string{"OLDEST"}}
	for _, row := range []struct {
		me     *datadir.Identity
		hello  peer.Hello
		reason string // empty: it is not refused for that
	}{
		{recovered, peer.Hello{Cluster: "NEW", Former: []string{"OLDEST", "OLD"}}, ""},
		{recovered, peer.Hello{Cluster: "ANOTHER"}, ""},
		{recovered, peer.Hello{Cluster: "OLD", Former: []string{"OLDEST"}, Node: peer.Node{ID: 3, Name: "c"}}, `was recovered without node "c" and is now NEW`},
		{recovered, peer.Hello{Cluster: "OLD", Former: []string{"OLDEST"}, Node: peer.Node{ID: 2, Name: "b"}}, `that node has not been recovered yet: stop it`},
		{recovered, peer.Hello{Cluster: "OTHER", Former: []string{"OLDEST", "OLD"}, Node: peer.Node{ID: 2, Name: "b"}}, `was recovered twice, with different plans: this node belongs to NEW and node "b" to OTHER`},
		{old, peer.Hello{Cluster: "NEW", Former: []string{"OLDEST", "OLD"}, Node: peer.Node{ID: 1, Name: "a"}}, "cluster NEW, which was recovered from cluster OLD"},
		{old, peer.Hello{Cluster: "OLDEST", Node: peer.Node{ID: 5, Name: "e"}}, `cluster OLDEST was recovered without node "e" and is now OLD`},
	} {
		err := refuseRecovered(row.me, row.hello)
		if row.reason == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, row.reason)
	}
}
