package sim

import (
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/replica/core"
)

// catalog is where the log is to be. In a cluster that is a log itself; here it
// is a register that is always right and changes at once. What nodes know of it
// is as in a cluster: they learn of changes late, not at all while they are cut
// off, and know less after a crash than they have acted on.
type catalog struct {
	versions []version // the last is the newest
	trace    func(format string, args ...any)
	// misplaced are versions in which the rule of the log was not kept.
	misplaced int
}

// version is the state that the changes so far add up to, and the log in it.
type version struct {
	cluster.State
	log cluster.Log
}

// logID is that of the one log.
const logID = 1

// farNodes are how many of the nodes, the last, have the label that read replicas are wanted on.
const farNodes = 2

// withReaders is a rule of so many read replicas.
func withReaders(count int) *cluster.Rule {
	if count == 0 {
		return nil
	}
	return &cluster.Rule{Readers: []cluster.ReadReplicas{{Label: "site=far", Count: count}}}
}

// found puts a log on the first count of some nodes, which, with places, are in three
// datacenters: the first is in one, the next in another, and so on.
func (c *catalog) found(nodes []*node, count int, o Options) {
	l := cluster.Log{ID: logID, Name: logName, Config: cluster.Config{Replicas: count}}
	if o.Places {
		l.Config.Rule = &cluster.Rule{Spread: "dc"}
	}
	if o.ReadReplicas {
		l.Config.Rule = withReaders(1)
	}
	if o.memory {
		inMemory(&l)
	}
	var members []cluster.Node
	for i, n := range nodes {
		if i < count {
			l.Founders = append(l.Founders, n.id)
			l.Replicas = append(l.Replicas, cluster.Replica{ID: n.id, Node: n.id})
		}
		// The catalog is no log here, but its votes are decided as if it were.
		members = append(members, cluster.Node{ID: n.id, Name: n.name(), Catalog: uint64(len(nodes)) + n.id, Votes: i == 0})
		if o.Places {
			members[i].Labels = []cluster.Label{[]cluster.Label{"dc=a", "dc=b", "dc=c"}[i%3]}
		}
		if o.ReadReplicas && i >= len(nodes)-farNodes {
			members[i].Labels = []cluster.Label{"site=far"}
		}
	}
	c.versions = []version{{State: cluster.NewState()}}
	c.change(func(*cluster.State) cluster.Change { return cluster.Change{Put: []cluster.Log{l}, Node: members} })
	c.versions = c.versions[1:]
}

func (c *catalog) newest() *version { return &c.versions[len(c.versions)-1] }

// unmet is what the rule of the log demands in a version, and is not kept.
func (c *catalog) unmet(v *version) []string { return cluster.Unmet(&v.State, &v.log) }

// settled is how many replicas the log had when it last had those that it should
// have.
func (c *catalog) settled() int {
	for i := len(c.versions) - 1; i >= 0; i-- {
		if l := &c.versions[i].log; l.Settled() {
			return len(l.Replicas)
		}
	}
	return 0 // not yet since a recovery
}

// change records what is decided on the newest state, and reports whether that is
// anything.
func (c *catalog) change(decide func(s *cluster.State) cluster.Change) bool {
	now := c.newest()
	change := decide(&now.State)
	if change.Empty() {
		return false
	}
	s := now.Clone()
	if err := s.Fold(change); err != nil {
		panic(err) // it is none of an unknown kind
	}
	c.versions = append(c.versions, version{s, s.Logs[logName]})
	if len(c.unmet(c.newest())) > 0 {
		c.misplaced++
	}
	c.trace("the log is to have %+v of %d, read replicas %+v, leaving %+v", c.newest().log.Replicas, c.newest().log.Config.Replicas, c.newest().log.Readers, c.newest().log.Leaving)
	return true
}

// place lets an operator change where the log is to be, with replica ids from next on.
func (c *catalog) place(decide func(l *cluster.Log, next uint64) bool) bool {
	return c.change(func(s *cluster.State) (change cluster.Change) {
		if l := s.Logs[logName]; decide(&l, s.NextReplica) {
			change.Put = []cluster.Log{l}
		}
		return change
	})
}

// member is a node as it knows the catalog, and acts on it.
type member struct {
	*node
	levels     cluster.Levels    // that the program of the node understands
	current    bool              // known was the newest since the process began
	known      int               // version of the catalog
	newer      map[uint64]uint64 // nodes of replicas that the catalog as known here does not place
	shaped     int               // version of the catalog, and term, for which the log is as it should be
	shapedTerm uint64
}

// catalog is the state as known here, placed the placement in it.
func (n *member) catalog() *version { return &n.world.catalog.versions[n.known] }

func (n *member) placed() *cluster.Placement { return &n.catalog().log.Placement }

// nodeOf returns the node of a replica from the catalog as known here or, if that
// does not place it, from the messages that it has sent.
func (n *member) nodeOf(replica uint64) uint64 {
	if node := n.placed().NodeOf(replica); node != 0 {
		return node
	}
	return n.newer[replica]
}

// refresh learns the newest placement, if this node can talk to most others,
// and does something then.
func (n *member) refresh(then func()) {
	w := n.world
	if w.network.alone(n.node) || w.network.lost() {
		return
	}
	life := n.life
	w.after(w.network.latency(), func() {
		newest := len(w.catalog.versions) - 1
		if w.network.alone(n.node) {
			return
		}
		w.after(w.network.latency(), func() {
			n.act(life, func() {
				n.known, n.current = max(n.known, newest), true
				if n.refuses(n.levels) {
					n.stop()
					return
				}
				n.rehost()
				if n.life == life {
					then()
				}
			})
		})
	})
}

// decide changes the catalog, if this node can talk to most others. It hears later
// what came of it.
func (n *member) decide(change func(s *cluster.State) cluster.Change) {
	w := n.world
	if w.network.alone(n.node) || w.network.lost() {
		return
	}
	w.after(w.network.latency(), func() {
		if !w.network.alone(n.node) {
			w.catalog.change(change)
		}
	})
}

// alone reports whether a node is cut off from so many that no majority is left.
func (w *network) alone(n *node) bool {
	reached, members := 0, 0
	for _, other := range w.nodes {
		if w.reach(n, other) {
			reached++
		}
		if !other.gone {
			members++
		}
	}
	return 2*reached <= members
}

// reach reports whether two nodes can talk to each other.
func (w *network) reach(n, other *node) bool {
	return other == n || other.up && !w.parted(n, other) && !w.parted(other, n)
}

// shape takes one step towards the replicas that the log should have, as the
// leader of it does.
func (n *member) shape() {
	s := n.replica.Status()
	if !s.Leading || n.shaped == n.known && n.shapedTerm == s.Term {
		return
	}
	n.refresh(func() {
		if n.replica == nil || !n.replica.Status().Leading {
			return
		}
		l, version, term := n.catalog().log, n.known, n.replica.Status().Term
		voters, learners := l.Wanted()
		n.replica.Do(func(c *core.Core) {
			switch {
			case !c.Membership.Reshape(voters, learners):
			case l.Settled():
				n.shaped, n.shapedTerm = version, term
			case !c.Membership.ConfigurationDurable():
			default:
				n.decide(func(s *cluster.State) cluster.Change {
					change := cluster.Settle(s, &l)
					if !change.Empty() {
						n.world.counts.Settled++
					}
					return change
				})
			}
		})
	})
}

// look is what a node does every 200 ms besides.
func (n *member) look() {
	w, life := n.world, n.life
	if n.repairing != nil {
		if n.repairing.work(); n.life != life {
			return
		}
	}
	switch {
	case n.replica != nil && n.replica.Status().Leading:
		n.continueBehind()
		n.shape()
	case n.replicaRepair != nil:
		n.replicaRepair.ask()
	case n.lost && w.chance(3):
		n.renew()
	}
	n.mind()
	n.control()
	if !n.current || w.chance(4) {
		n.refresh(func() {})
	}
}

// control has decided what is due in the cluster, if this node leads the catalog, which
// the first does that is not cut off.
func (n *member) control() {
	w := n.world
	for _, other := range w.nodes {
		if other.up && !w.network.alone(other) {
			if other != n.node {
				return
			}
			break
		}
	}
	seen := n.view()
	if len(cluster.Due(&n.catalog().State, seen)) == 0 {
		return
	}
	n.decide(func(s *cluster.State) cluster.Change {
		due := cluster.Due(s, seen)
		for _, a := range due {
			switch a.Kind {
			case cluster.AddReplica:
				w.counts.Added++
			case cluster.RemoveReplica:
				w.counts.Removed++
			case cluster.AddReadReplica:
				w.counts.ReadersAdded++
			case cluster.MoveReplica:
				l := s.Logs[a.Log]
				if r, _ := l.On(a.Node); r.Reader {
					w.counts.ReadersMoved++
				}
			}
		}
		return cluster.Enact(s, due)
	})
}

// view is what this node sees of the others now. None is down for so long that it
// counts as gone.
func (n *member) view() cluster.View {
	reached := map[uint64]bool{}
	for _, other := range n.world.nodes {
		reached[other.id] = n.world.network.reach(n.node, other)
	}
	return cluster.View{Alive: func(id uint64) bool { return reached[id] }, Lost: func(uint64) bool { return false }}
}

// renew asks for another replica in the place of the one here, which cannot be
// trusted any more.
func (n *member) renew() {
	lost := n.replicaID
	n.decide(func(s *cluster.State) cluster.Change {
		change := cluster.RenewReplicas(s, n.id, map[uint64]bool{lost: true}).Change
		if !change.Empty() {
			n.world.counts.Renewed++
		}
		return change
	})
}
