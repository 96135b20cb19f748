package membership

import (
	"context"
	"slices"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

// cluster.Admit decides who is admitted; the code here calls it and answers.

// Roll enters nodes in the catalog: this one, and those that ask to be members.
type Roll struct {
	options *settings.Options
	me      *datadir.Me
	catalog *catalog.Shared
	self    *peers.Self
	peers   *peers.Peers
	// understood are the levels of the peers that this node has formed a cluster with.
	understood []cluster.Levels
}

// NewRoll returns a Roll that changes the members in the catalog.
func NewRoll(options *settings.Options, me *datadir.Me, catalog *catalog.Shared, self *peers.Self, peers *peers.Peers) *Roll {
	return &Roll{options: options, me: me, catalog: catalog, self: self, peers: peers}
}

// announceTime is how long a node that was added may take to join.
const announceTime = time.Hour

// TakeIn admits a node that asks, if the node is expected.
func (r *Roll) TakeIn(ctx context.Context, q cluster.JoinRequest) (cluster.JoinAnswer, error) {
	c := r.catalog.Load()
	if c == nil {
		return cluster.JoinAnswer{}, r.self.NotMember()
	}
	// One that is not expected asks again and again: it must not cost the others
	// a question each time.
	if _, _, refusal := cluster.Admit(c.Shown.Load(), q, r.self.Now().UnixMilli()); refusal != nil {
		return cluster.JoinAnswer{}, refusal
	}
	me := r.me.Load()
	a := cluster.JoinAnswer{ClusterID: me.ClusterID, CatalogVoters: me.CatalogVoters}
	err := c.Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		if _, begun := s.Nodes[me.NodeID]; !begun {
			return cluster.Change{}, r.self.NotMember() // the newcomer would not know whom to talk to
		}
		node, change, refusal := cluster.Admit(s, q, r.self.Now().UnixMilli())
		if refusal != nil {
			return cluster.Change{}, refusal
		}
		a.NodeID, a.CatalogReplica = node.ID, node.Catalog
		return change, nil
	})
	a.Nodes = c.Shown.Load().Members()
	return a, err
}

// Introduce enters this node in the catalog if it is missing, or is there with an old address. The
// node that formed the cluster admits its peers in the same change.
func (r *Roll) Introduce(ctx context.Context) error {
	me := r.me.Load()
	c := r.catalog.Load()
	node := cluster.Node{ID: me.NodeID, Name: me.Name, Catalog: me.CatalogReplica, Address: r.options.GRPCAddress, Kafka: r.options.KafkaAddress}
	patient := time.Since(c.Host().Opened) < r.options.RelabelAfter
	peers := slices.DeleteFunc(r.self.Candidate().Peers, func(name string) bool { return name == me.Name })
	introduce := func(s *cluster.State) (cluster.Change, error) {
		if node.Labels = r.options.Labels; patient {
			node.Labels = cluster.WithNewLabels(s.Nodes[node.ID].Labels, node.Labels)
		}
		return catalog.Refusable(cluster.Introduce(s, node, peers, r.firstLevel(), r.options.Administrator))
	}
	if change, err := introduce(c.Shown.Load()); err != nil || change.Empty() {
		return err
	}
	return c.Change(ctx, introduce)
}

// Announce allows a node with a name to join.
func (r *Roll) Announce(ctx context.Context, name string) error {
	return r.change(ctx, func(s *cluster.State) (cluster.Change, *record.Refusal) {
		now := r.self.Now()
		if _, member := s.Named(name); member {
			return cluster.Change{}, nil // between the look and now
		}
		return cluster.Announce(s, cluster.Announced{Name: name, Expires: now.Add(announceTime).UnixMilli()}, now.UnixMilli())
	})
}

// change changes the members with decide.
func (r *Roll) change(ctx context.Context, decide func(*cluster.State) (cluster.Change, *record.Refusal)) error {
	c := r.catalog.Load()
	if c == nil {
		return r.self.NotMember()
	}
	return c.Change(ctx, func(s *cluster.State) (cluster.Change, error) { return catalog.Refusable(decide(s)) })
}

// formedWith notes the feature levels of the nodes that form a cluster with this one.
func (r *Roll) formedWith(understood []cluster.Levels) { r.understood = understood }

// firstLevel is the feature level at which the cluster of this node begins: the lowest if
// the process that has formed it is gone.
func (r *Roll) firstLevel() int {
	switch {
	case len(r.options.Peers) == 0:
		return r.options.Levels.Max
	case r.understood == nil:
		return r.options.Levels.Min
	}
	return cluster.FirstLevel(r.understood)
}

// awaitMembers waits until the named nodes are members and the catalog has its wanted voters. It
// returns the names of nodes that did not join in time.
func (r *Roll) awaitMembers(ctx context.Context, names []string) (missing []string) {
	ctx, cancel := context.WithTimeout(ctx, formTime)
	defer cancel()
	c := r.catalog.Load()
	view := cluster.View{Alive: r.peers.Reaches, Lost: func(uint64) bool { return false }}
	for {
		state := c.Shown.Load()
		connected := true
		missing = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			node, member := state.Named(name)
			connected = connected && r.peers.Reaches(node.ID)
			return member
		})
		voters, _ := cluster.CatalogMembers(state)
		now := c.Host().Replica.Status()
		settled := connected && len(cluster.Due(state, view)) == 0 && len(now.Voters) == len(voters) && len(now.Outgoing) == 0
		if len(missing) == 0 && settled {
			return nil
		}
		if background.Pause(ctx, background.LookSoon); ctx.Err() != nil {
			return missing
		}
	}
}
