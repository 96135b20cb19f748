package peers

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/transport/peer"
)

// Admission decides which nodes may connect with this one, and records which of them refuse it.
type Admission struct {
	logger       *slog.Logger
	me           *datadir.Me
	catalog      *catalog.Shared
	incarnations *datadir.Incarnations
	self         *Self
	status       *Status
	unknown      *Unknown

	// Forgotten receives a message when another node shows that the data of this node are an older
	// copy. The next message is sent only after incarnations.Replacing was reset.
	Forgotten chan Forgotten
}

// Forgotten means that another node knows a later incarnation of this node.
type Forgotten struct {
	Other  string // its name
	Number uint64 // of the incarnation
}

// NewAdmission returns an Admission that admits members, and nodes that are newer than this node's
// catalog, which it enters in unknown.
func NewAdmission(
	logger *slog.Logger, me *datadir.Me, catalog *catalog.Shared, incarnations *datadir.Incarnations, self *Self, status *Status, unknown *Unknown,
) *Admission {
	return &Admission{
		logger: logger, me: me, catalog: catalog, incarnations: incarnations, self: self, status: status, unknown: unknown,
		Forgotten: make(chan Forgotten, 1),
	}
}

// Admit reports whether another node may connect with this one, or why not.
func (a *Admission) Admit(hello peer.Hello) error {
	me := a.me.Load()
	c := a.catalog.Load()
	if me.Member() && c != nil && hello.Proved != "" {
		if c.Shown.Load().WasRemoved(hello.Proved) {
			return errRemoved(hello.Proved)
		}
		if hello.Node.ID != 0 && hello.Node.Name != hello.Proved {
			return fmt.Errorf("node %d has the name %q, but its certificate is that of node/%s", hello.Node.ID, hello.Node.Name, hello.Proved)
		}
	}
	if hello.Node.ID == 0 || !me.Member() {
		return nil // it can ask, and gets the answer
	}
	if err := refuseRecovered(me, hello); err != nil {
		return err
	}
	if hello.Cluster != me.ClusterID {
		return fmt.Errorf("node %q belongs to cluster %s, this is %s: check the addresses in --peers and --join, and --data",
			hello.Node.Name, hello.Cluster, me.ClusterID)
	}
	if c == nil {
		return nil // it cannot read its catalog, and has no connections: this one only asks or is asked
	}
	state := c.Shown.Load()
	if refusal := cluster.RefuseLevels(hello.Node.Name, cluster.Levels(hello.Levels), state.FeatureLevel()); refusal != nil {
		return errors.New(refusal.Detail)
	}
	if name, gone := state.Gone[hello.Node.ID]; gone {
		return errRemoved(name)
	}
	known, ok := state.Nodes[hello.Node.ID]
	if !ok && hello.Node.ID >= state.NextNode {
		if state.NameUsed(hello.Node.Name) {
			return fmt.Errorf("node %d has the name %q, which is the name of another node", hello.Node.ID, hello.Node.Name)
		}
		a.unknown.meet(hello.Node)
		return nil
	}
	if !ok {
		return fmt.Errorf("node %d is unknown here", hello.Node.ID)
	}
	if known.Name != hello.Node.Name {
		return fmt.Errorf("node %d has the name %q, not %q", hello.Node.ID, known.Name, hello.Node.Name)
	}
	return a.judge(hello)
}

func errRemoved(name string) error {
	return fmt.Errorf("node %q was removed from the cluster: to come back, start it with an empty data directory, a new name and --join", name)
}

// RefusedBy logs why another node refuses this one, once for each node as long as the reason is the
// same. Nodes that are not in the catalog can claim any name, so they count as one node.
func (a *Admission) RefusedBy(other peer.Node, reason string) {
	id := other.ID
	if c := a.catalog.Load(); c == nil || c.Shown.Load().Nodes[id].ID == 0 {
		id = 0
	}
	if a.status.refused(id, reason) {
		a.logger.Error("another node refuses this one", "node", other.Name, "address", other.Address, "reason", reason)
	}
}

// judge refuses a node that returns with an older copy of its data, and all connections while this
// node is such a node.
func (a *Admission) judge(hello peer.Hello) error {
	older, forgotten := a.incarnations.Meet(hello.Node.ID, hello.Incarnation, hello.Known[a.me.Load().NodeID])
	if forgotten > 0 {
		if !a.incarnations.Replacing.Swap(true) {
			a.Forgotten <- Forgotten{Other: hello.Node.Name, Number: forgotten}
		}
		return fmt.Errorf("node %q has started with an older copy of its data, and replaces its replicas", a.self.Name())
	}
	if older {
		return fmt.Errorf("node %q has started with an older copy of its data: this node knows of later changes", hello.Node.Name)
	}
	return nil
}

// refuseRecovered refuses a node whose cluster was this one before a recovery, or was recovered
// from the same one. It refuses only the connection: the other cluster may be a copy of this one
// that was recovered as a drill, and a message of another node must never stop a cluster that has a
// majority.
func refuseRecovered(me *datadir.Identity, hello peer.Hello) error {
	name := hello.Node.Name
	shared := slices.IndexFunc(me.Former, func(id string) bool { return slices.Contains(hello.Former, id) })
	switch {
	case hello.Cluster == me.ClusterID:
		return nil
	case slices.Contains(me.Former, hello.Cluster):
		if slices.ContainsFunc(me.Seeds, func(n cluster.Node) bool { return n.ID == hello.Node.ID }) {
			return fmt.Errorf("cluster %s was recovered with node %q and is now %s, but that node has not been recovered yet: stop it, and run \"cluster recover\" on its data directory",
				hello.Cluster, name, me.ClusterID)
		}
		return fmt.Errorf("cluster %s was recovered without node %q and is now %s", hello.Cluster, name, me.ClusterID)
	case slices.Contains(hello.Former, me.ClusterID):
		return fmt.Errorf("node %q belongs to cluster %[3]s, which was recovered from cluster %[2]s, the cluster of this node: if that was on purpose, stop the nodes that were left out",
			name, me.ClusterID, hello.Cluster)
	case shared >= 0:
		return fmt.Errorf("cluster %s was recovered twice, with different plans: this node belongs to %s and node %q to %s; keep one of them: nodes of the other can join it with an empty data directory, a new name and --join",
			me.Former[shared], me.ClusterID, name, hello.Cluster)
	}
	return nil
}
