package peers

import (
	"fmt"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/transport/peer"
)

// refuseRecovered refuses a node whose cluster was this one before a recovery, or was recovered from the same.
// Only the connection is refused. It may be a copy of this cluster that was recovered as a drill, and
// what another node says must never stop one that has a majority.
func refuseRecovered(me *datadir.Identity, hello peer.Hello) error {
	name := hello.Node.Name
	shared := slices.IndexFunc(me.Former, func(id string) bool { return slices.Contains(hello.Former, id) })
	switch {
	case hello.Cluster == me.ClusterID:
		return nil
	case slices.Contains(me.Former, hello.Cluster):
		if slices.ContainsFunc(me.Seeds, func(n cluster.Node) bool { return n.ID == hello.Node.ID }) {
			return fmt.Errorf("cluster %s was recovered with node %q and is %s now, and that node has not been recovered yet: stop it, and run \"cluster recover\" on its data directory",
				hello.Cluster, name, me.ClusterID)
		}
		return fmt.Errorf("cluster %s was recovered without node %q and is %s now", hello.Cluster, name, me.ClusterID)
	case slices.Contains(hello.Former, me.ClusterID):
		return fmt.Errorf("node %q says that cluster %s was recovered as %s, and this node is of the former: if that was on purpose, stop the nodes that were left out",
			name, me.ClusterID, hello.Cluster)
	case shared >= 0:
		return fmt.Errorf("cluster %s was recovered twice, by different plans: this node is of %s and node %q of %s. Keep one of them: nodes of the other can join it with an empty data directory, a new name and --join",
			me.Former[shared], me.ClusterID, name, hello.Cluster)
	}
	return nil
}
