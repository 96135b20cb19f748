package membership

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

// cluster.Admit decides who is admitted; the code here calls it and answers.

// members decides, for operators and for nodes that ask, who is in the cluster.
type members struct {
	options *settings.Options
	me      *datadir.Me
	catalog *catalog.Shared
	self    *peers.Self
	peers   *peers.Peers
	caller  *peers.Caller
	former  *former
}

const (
	// announceTime is for how long a node that was added may take to come.
	announceTime = time.Hour
	// MaxTokenTime is the longest lifetime of a token.
	MaxTokenTime = 30 * 24 * time.Hour
)

// Member is a node of the cluster as its clients find it.
type Member struct {
	ID      uint64
	Name    string
	Address string // of its gRPC port
	Kafka   string // of its Kafka port; empty: it has none
	Up      bool   // there is a connection to it
	Labels  []cluster.Label
}

// TakeIn admits a node that asks, if it is expected.
func (m *members) TakeIn(ctx context.Context, q cluster.JoinRequest) (cluster.JoinAnswer, error) {
	c := m.catalog.Load()
	if c == nil {
		return cluster.JoinAnswer{}, m.self.NotMember()
	}
	// One that is not expected asks again and again: it must not cost the others
	// a question each time.
	if _, _, refusal := cluster.Admit(c.Shown.Load(), q, m.self.Now().UnixMilli()); refusal != nil {
		return cluster.JoinAnswer{}, refusal
	}
	me := m.me.Load()
	a := cluster.JoinAnswer{ClusterID: me.ClusterID, CatalogVoters: me.CatalogVoters}
	err := c.Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		if _, begun := s.Nodes[me.NodeID]; !begun {
			return cluster.Change{}, m.self.NotMember() // the newcomer would not know whom to talk to
		}
		node, change, refusal := cluster.Admit(s, q, m.self.Now().UnixMilli())
		if refusal != nil {
			return cluster.Change{}, refusal
		}
		a.NodeID, a.CatalogReplica = node.ID, node.Catalog
		return change, nil
	})
	a.Nodes = c.Shown.Load().Members()
	return a, err
}

// Introduce enters this node in the catalog if it is not there, or under an
// address that it had before. The one that has formed the cluster lets its peers
// in with the same change.
func (m *members) Introduce(ctx context.Context) error {
	me := m.me.Load()
	c := m.catalog.Load()
	node := cluster.Node{ID: me.NodeID, Name: me.Name, Catalog: me.CatalogReplica, Address: m.options.GRPCAddress, Kafka: m.options.KafkaAddress}
	patient := time.Since(c.Host().Opened) < m.options.RelabelAfter
	peers := slices.DeleteFunc(m.self.Candidate().Peers, func(name string) bool { return name == me.Name })
	introduce := func(s *cluster.State) (cluster.Change, error) {
		if node.Labels = m.options.Labels; patient {
			node.Labels = cluster.WithNewLabels(s.Nodes[node.ID].Labels, node.Labels)
		}
		return catalog.Refusable(cluster.Introduce(s, node, peers, m.former.firstLevel(), m.options.Administrator))
	}
	if change, err := introduce(c.Shown.Load()); err != nil || change.Empty() {
		return err
	}
	return c.Change(ctx, introduce)
}

// FinalizeCluster raises the feature level of the cluster to the newest that its nodes
// understand, and returns the level. It is refused, and names the nodes, while one of them
// does not answer or is too old. There is no way back.
func (m *members) FinalizeCluster(ctx context.Context, _ verbs.Caller) (level int, err error) {
	c := m.catalog.Load()
	if c == nil {
		return 0, m.self.NotMember()
	}
	if err := c.Refresh(ctx); err != nil {
		return 0, err
	}
	announced := map[uint64]cluster.Levels{}
	for id, r := range verbs.AskAll(ctx, m.caller, c.Shown.Load()) {
		announced[id] = r.Levels
	}
	err = m.changeMembers(ctx, func(s *cluster.State) (change cluster.Change, refusal *record.Refusal) {
		level, change, refusal = cluster.Finalize(s, announced)
		return change, refusal
	})
	return level, err
}

// AddNode announces the node that waits at an address, gives it addresses to ask, and
// returns when it is a member. It reports true if it was one before.
func (m *members) AddNode(ctx context.Context, _ verbs.Caller, name, address string) (existed bool, err error) {
	c := m.catalog.Load()
	if c == nil {
		return false, m.self.NotMember()
	}
	if node, member := c.Shown.Load().Named(name); member && node.Address == address {
		return true, nil
	} else if member {
		return false, cluster.NameTaken(node)
	}
	var there cluster.Candidate
	if err := m.caller.AskAddress(ctx, address, peers.AskWho, struct{}{}, &there); err != nil {
		if refused := (*peer.RefusedError)(nil); errors.As(err, &refused) {
			return false, record.Refuse(record.Precondition, "the node at %s cannot be added: %v", address, refused)
		}
		return false, record.Refuse(record.Busy, "nothing was changed: no node answers at %s: start it with `strandline serve --node-name %s --join %s`. %v",
			address, name, m.options.GRPCAddress, err)
	}
	switch {
	case there.Name != name:
		return false, record.Refuse(record.Precondition, "the node at %s is called %q, not %q", address, there.Name, name)
	case there.Cluster != "":
		return false, record.Refuse(record.Precondition, "node %q belongs to cluster %s already", name, there.Cluster)
	}
	if err := m.Announce(ctx, name); err != nil {
		return false, err
	}
	q := Invitation{Name: name}
	for _, node := range c.Shown.Load().Members() {
		q.Addresses = append(q.Addresses, node.Address)
	}
	// One that knows from its options whom to ask needs no invitation, and may be
	// a member by now, which it says.
	invited := m.caller.AskAddress(ctx, address, peers.AskInvite, q, nil)
	if len(m.former.awaitMembers(ctx, []string{name})) > 0 {
		return false, record.Refuse(record.OutcomeUnknown, "node %q is announced and is admitted when it asks, which it has not done yet: look with `strandline cluster status` (last answer of the node: %v)", name, invited)
	}
	return false, nil
}

// Announce lets a node of a name join.
func (m *members) Announce(ctx context.Context, name string) error {
	return m.changeMembers(ctx, func(s *cluster.State) (cluster.Change, *record.Refusal) {
		now := m.self.Now()
		if _, member := s.Named(name); member {
			return cluster.Change{}, nil // between the look and now
		}
		return cluster.Announce(s, cluster.Announced{Name: name, Expires: now.Add(announceTime).UnixMilli()}, now.UnixMilli())
	})
}

// CreateToken makes a token with which one node, or any number, can join for a
// while. The token is returned here and kept nowhere.
func (m *members) CreateToken(ctx context.Context, _ verbs.Caller, lifetime time.Duration, reusable bool) (token string, expires time.Time, err error) {
	if lifetime < time.Second || lifetime > MaxTokenTime {
		return "", expires, record.Refuse(record.Invalid, "a token that lives for %v was asked for: between 1s and %d days", lifetime, MaxTokenTime/(24*time.Hour))
	}
	token, expires = rand.Text(), m.self.Now().Add(lifetime)
	kept := cluster.Token{Hash: cluster.HashToken(token), Expires: expires.UnixMilli(), Reusable: reusable}
	err = m.changeMembers(ctx, func(s *cluster.State) (cluster.Change, *record.Refusal) {
		return cluster.AddToken(s, kept, m.self.Now().UnixMilli())
	})
	return token, expires, err
}

// RemoveNode takes a node out of the cluster, dead or alive, or does not expect
// any more one that was announced. It is refused while the node holds replicas:
// ReplaceNode moves them.
func (m *members) RemoveNode(ctx context.Context, _ verbs.Caller, name string) error {
	return m.changeMembers(ctx, func(s *cluster.State) (cluster.Change, *record.Refusal) { return cluster.RemoveNode(s, name) })
}

// ReplaceNode moves all replicas of a node, dead or alive, to another one, and
// takes it out of the cluster when they have caught up there. It returns when
// the move has been decided; ClusterStatus shows how far it is.
func (m *members) ReplaceNode(ctx context.Context, _ verbs.Caller, dead, with string) error {
	return m.changeMembers(ctx, func(s *cluster.State) (cluster.Change, *record.Refusal) {
		return cluster.ReplaceNode(s, dead, with, m.peers.Reaches)
	})
}

func (m *members) changeMembers(ctx context.Context, decide func(*cluster.State) (cluster.Change, *record.Refusal)) error {
	c := m.catalog.Load()
	if c == nil {
		return m.self.NotMember()
	}
	return c.Change(ctx, func(s *cluster.State) (cluster.Change, error) { return catalog.Refusable(decide(s)) })
}

// DrainNode has a node hand over all that it leads and be given nothing, or, with undo, takes
// that back. It returns when that has been decided; ClusterStatus shows when it may stop.
func (m *members) DrainNode(ctx context.Context, _ verbs.Caller, name string, undo bool) error {
	return m.changeMembers(ctx, func(s *cluster.State) (cluster.Change, *record.Refusal) { return cluster.Drain(s, name, undo) })
}

// SetDefaultRule gives the logs whose names begin with a prefix, and that have no rule of
// their own, a rule; an empty one takes it away.
func (m *members) SetDefaultRule(ctx context.Context, _ verbs.Caller, prefix string, rule cluster.Rule) error {
	return m.changeMembers(ctx, func(s *cluster.State) (cluster.Change, *record.Refusal) { return cluster.SetRule(s, prefix, rule) })
}

// Rebalance spreads the replicas of all logs evenly over the nodes that can be
// reached: the node that leads the catalog moves some at a time. It returns how
// many move or are still to.
func (m *members) Rebalance(ctx context.Context, _ verbs.Caller) (left int, err error) {
	c := m.catalog.Load()
	if c == nil {
		return 0, m.self.NotMember()
	}
	view := cluster.View{Alive: m.peers.Reaches}
	err = c.Change(ctx, func(s *cluster.State) (cluster.Change, error) {
		left = len(cluster.SpreadReplicas(s, view))
		for _, l := range s.Logs {
			if !l.Settled() {
				left++
			}
		}
		if s.Spreading || len(cluster.SpreadReplicas(s, view)) == 0 {
			return cluster.Change{}, nil
		}
		return cluster.Change{Spread: new(true)}, nil
	})
	return left, err
}

// Members are the nodes of the cluster as this one knows them, by id, and which
// of them it is itself: 0 before it is one.
func (m *members) Members() (members []Member, self uint64) {
	self = m.me.Load().NodeID
	c := m.catalog.Load()
	if c == nil {
		return nil, self
	}
	for _, node := range c.Shown.Load().Members() {
		members = append(members, Member{
			ID: node.ID, Name: node.Name, Address: node.Address, Kafka: node.Kafka, Up: node.ID == self || m.peers.Status.Up(node.ID), Labels: node.Labels,
		})
	}
	return members, self
}
