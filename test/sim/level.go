package sim

import (
	"strandline.dev/internal/cluster"
	"strandline.dev/test/disk/faultdisk"
)

// Nodes run programs of several releases, an operator upgrades them, lets them go back,
// and finalizes. Nodes of which one does not understand the level that the other knows
// of do not talk to each other, and one that does not understand it itself does not run.

// refuses reports whether the cluster, as this node knows it, is at a level outside of some
// levels.
func (n *member) refuses(levels cluster.Levels) bool {
	return cluster.RefuseLevels(n.name(), levels, n.catalog().FeatureLevel()) != nil
}

// stop ends a process that does not understand the cluster, which whoever looks after it
// starts again.
func (n *member) stop() {
	w := n.world
	w.trace("node %d: understands %v and does not run at level %d", n.id, n.levels, n.catalog().FeatureLevel())
	if n.begun < w.raised {
		w.fail("node %d, which understands %v, ran when the cluster was raised to %d", n.id, n.levels, n.catalog().FeatureLevel())
	}
	n.end(false, faultdisk.Remains(0))
}

// install gives a node another program, with which its process begins again.
func (n *member) install(levels cluster.Levels) {
	n.levels = levels
	if n.up {
		n.die(n.world.chance(2))
	}
}

// finalize asks a node to raise the level of the cluster: it asks the others first, and
// something may happen before the change is made. It reports whether the cluster was raised.
func (w *operator) finalize(by *node, between func()) bool {
	if !by.up || w.network.alone(by) {
		return false
	}
	announced := map[uint64]cluster.Levels{}
	for _, n := range w.nodes {
		if w.network.reach(by, n) {
			announced[n.id] = n.levels
		}
	}
	between()
	return w.catalog.change(func(s *cluster.State) cluster.Change {
		_, change, _ := cluster.Finalize(s, announced)
		if !change.Empty() {
			w.world.raised = w.now
		}
		return change
	})
}
