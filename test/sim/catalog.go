package sim

import (
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/replica/core"
)

// catalog is where the log is to be. In a cluster that is a log itself; here it
// is a register that is always right and changes at once. What nodes know of it
// is as in a cluster: they hear of changes late, not at all while they are cut
// off, and know less after a crash than they have acted on.
type catalog struct {
	versions []cluster.Placement // the last is the newest
	given    []uint64            // the highest replica id in each version and those before
	next     uint64              // the first replica id that was never used
	trace    func(format string, args ...any)
}

// found puts a log on the first count nodes.
func (c *catalog) found(count int) {
	var p cluster.Placement
	for id := uint64(1); id <= uint64(count); id++ {
		p.Founders = append(p.Founders, id)
		p.Replicas = append(p.Replicas, cluster.Replica{ID: id, Node: id})
	}
	c.versions, c.given, c.next = []cluster.Placement{p}, []uint64{uint64(count)}, uint64(count)+1
}

func (c *catalog) newest() *cluster.Placement { return &c.versions[len(c.versions)-1] }

// settled is how many replicas the log had when it last had those that it should
// have.
func (c *catalog) settled() int {
	for i := len(c.versions) - 1; ; i-- {
		if p := &c.versions[i]; p.Settled() {
			return len(p.Replicas)
		}
	}
}

// change decides on the newest placement, a copy of which it is given, and
// reports whether there is a newer one now.
func (c *catalog) change(decide func(p *cluster.Placement) bool) bool {
	p := *c.newest()
	if !decide(&p) {
		return false
	}
	c.versions = append(c.versions, p)
	c.given = append(c.given, max(c.given[len(c.given)-1], slices.Max(p.Wanted())))
	c.trace("the log is to have %+v, leaving %+v", p.Replicas, p.Leaving)
	return true
}

// take is an id that was never used.
func (c *catalog) take() uint64 {
	c.next++
	return c.next - 1
}

// placed is the placement as known here.
func (n *node) placed() *cluster.Placement { return &n.world.catalog.versions[n.known] }

// nodeOf is the node of a replica as known here, or as that has told by writing.
func (n *node) nodeOf(replica uint64) uint64 {
	if node := n.placed().NodeOf(replica); node != 0 {
		return node
	}
	return n.newer[replica]
}

// refresh learns the newest placement, if this node can talk to most others,
// and does something then.
func (n *node) refresh(then func()) {
	w := n.world
	if w.alone(n) || w.lost() {
		return
	}
	life := n.life
	w.after(w.latency(), func() {
		newest := len(w.catalog.versions) - 1
		if w.alone(n) {
			return
		}
		w.after(w.latency(), func() {
			n.act(life, func() {
				n.known, n.current = max(n.known, newest), true
				n.rehost()
				if n.life == life {
					then()
				}
			})
		})
	})
}

// decide changes the placement, if this node can talk to most others. It hears
// later what came of it.
func (n *node) decide(change func(p *cluster.Placement) bool) {
	w := n.world
	if w.alone(n) || w.lost() {
		return
	}
	w.after(w.latency(), func() {
		if !w.alone(n) {
			w.catalog.change(change)
		}
	})
}

// alone reports whether a node is cut off from so many that no majority is left.
func (w *world) alone(n *node) bool {
	reached := 0
	for _, other := range w.nodes {
		if other == n || other.up && !w.network.cut[way{n.id, other.id}] && !w.network.cut[way{other.id, n.id}] {
			reached++
		}
	}
	return 2*reached <= len(w.nodes)
}

// shape takes one step towards the replicas that the log should have, as the
// leader of it does.
func (n *node) shape() {
	s := n.replica.Status()
	if !s.Leading || n.shaped == n.known && n.shapedTerm == s.Term {
		return
	}
	n.refresh(func() {
		if n.replica == nil || !n.replica.Status().Leading {
			return
		}
		p, version, term := *n.placed(), n.known, n.replica.Status().Term
		n.replica.Do(func(c *core.Core) {
			switch {
			case !c.Reshape(p.Wanted(), nil):
			case p.Settled():
				n.shaped, n.shapedTerm = version, term
			case !c.ConfigurationDurable():
			default:
				n.decide(func(now *cluster.Placement) bool {
					if !now.Same(&p) {
						return false
					}
					now.Settle()
					n.world.counts.Settled++
					return true
				})
			}
		})
	})
}

// look is what a node does every 200 ms besides.
func (n *node) look() {
	w, life := n.world, n.life
	if n.repairing != nil {
		if n.repairing.work(); n.life != life {
			return
		}
	}
	switch {
	case n.replica != nil && n.replica.Status().Leading:
		n.shape()
	case n.replicaRepair != nil:
		n.replicaRepair.ask()
	case n.distrusted != nil && w.chance(3):
		n.renew()
	}
	if !n.current || w.chance(4) {
		n.refresh(func() {})
	}
}

// renew asks for another replica in the place of the one here, which cannot be
// trusted any more.
func (n *node) renew() {
	lost := n.replicaID
	n.decide(func(p *cluster.Placement) bool {
		w := n.world
		if r, here := p.On(n.id); !here || r.ID != lost {
			return false
		}
		if p.Renew(lost, w.catalog.next) {
			w.catalog.take()
		}
		w.counts.Renewed++
		return true
	})
}
