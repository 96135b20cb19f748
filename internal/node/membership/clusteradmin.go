package membership

import (
	"context"
	"crypto/rand"
	"errors"
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

// ClusterAdmin shows and changes the members of the cluster for operators.
type ClusterAdmin struct {
	options *settings.Options
	me      *datadir.Me
	catalog *catalog.Shared
	self    *peers.Self
	peers   *peers.Peers
	caller  *peers.Caller
	roll    *Roll
}

// NewClusterAdmin returns the verbs that show and change the members; roll makes the changes.
func NewClusterAdmin(
	options *settings.Options, me *datadir.Me, catalog *catalog.Shared, self *peers.Self, peers *peers.Peers, caller *peers.Caller, roll *Roll,
) *ClusterAdmin {
	return &ClusterAdmin{options: options, me: me, catalog: catalog, self: self, peers: peers, caller: caller, roll: roll}
}

// MaxTokenTime is the longest lifetime of a token.
const MaxTokenTime = 30 * 24 * time.Hour

// Member is a node of the cluster with its addresses for clients.
type Member struct {
	ID      uint64
	Name    string
	Address string // of its gRPC port
	Kafka   string // of its Kafka port; empty: it has none
	Up      bool   // there is a connection to it
	Labels  []cluster.Label
}

// FinalizeCluster raises the feature level of the cluster to the newest that its nodes understand,
// and returns the level. It is refused, with the names of the nodes, while a node does not answer
// or is too old. It cannot be undone.
func (m *ClusterAdmin) FinalizeCluster(ctx context.Context, _ verbs.Caller) (level int, err error) {
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
	err = m.roll.change(ctx, func(s *cluster.State) (change cluster.Change, refusal *record.Refusal) {
		level, change, refusal = cluster.Finalize(s, announced)
		return change, refusal
	})
	return level, err
}

// AddNode announces the node that waits at an address, gives it addresses to ask, and returns when
// it is a member. It returns true if the node was a member before.
func (m *ClusterAdmin) AddNode(ctx context.Context, _ verbs.Caller, name, address string) (existed bool, err error) {
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
		return false, record.Refuse(record.Busy, "nothing was changed: no node answers at %s: start it with `strandline serve --node-name %s --join %s` (%v)",
			address, name, m.options.GRPCAddress, err)
	}
	switch {
	case there.Name != name:
		return false, record.Refuse(record.Precondition, "the node at %s has the name %q, not %q", address, there.Name, name)
	case there.Cluster != "":
		return false, record.Refuse(record.Precondition, "node %q already belongs to cluster %s", name, there.Cluster)
	}
	if err := m.roll.Announce(ctx, name); err != nil {
		return false, err
	}
	q := Invitation{Name: name}
	for _, node := range c.Shown.Load().Members() {
		q.Addresses = append(q.Addresses, node.Address)
	}
	// A node whose options name the nodes to ask needs no invitation. It may be a member by now,
	// and then says so.
	invited := m.caller.AskAddress(ctx, address, peers.AskInvite, q, nil)
	if len(m.roll.awaitMembers(ctx, []string{name})) > 0 {
		return false, record.Refuse(record.OutcomeUnknown, "node %q is announced but has not joined yet; it joins when it asks: see `strandline cluster status` (last answer of the node: %v)", name, invited)
	}
	return false, nil
}

// CreateToken creates a token with which one node, or any number, can join for a limited time. It
// returns the token, which is stored only as a hash.
func (m *ClusterAdmin) CreateToken(ctx context.Context, _ verbs.Caller, lifetime time.Duration, reusable bool) (token string, expires time.Time, err error) {
	if lifetime < time.Second || lifetime > MaxTokenTime {
		return "", expires, record.Refuse(record.Invalid, "a token's lifetime must be between 1s and %d days, not %v", MaxTokenTime/(24*time.Hour), lifetime)
	}
	token, expires = rand.Text(), m.self.Now().Add(lifetime)
	kept := cluster.Token{Hash: cluster.HashToken(token), Expires: expires.UnixMilli(), Reusable: reusable}
	err = m.roll.change(ctx, func(s *cluster.State) (cluster.Change, *record.Refusal) {
		return cluster.AddToken(s, kept, m.self.Now().UnixMilli())
	})
	return token, expires, err
}

// RemoveNode removes a node, running or not, from the cluster, or withdraws the announcement of a
// node. It is refused while the node holds replicas: ReplaceNode moves them.
func (m *ClusterAdmin) RemoveNode(ctx context.Context, _ verbs.Caller, name string) error {
	return m.roll.change(ctx, func(s *cluster.State) (cluster.Change, *record.Refusal) { return cluster.RemoveNode(s, name) })
}

// ReplaceNode moves all replicas of a node, running or not, to another node, and removes the first
// when they have caught up. It returns when the move has been decided; ClusterStatus shows its
// progress.
func (m *ClusterAdmin) ReplaceNode(ctx context.Context, _ verbs.Caller, dead, with string) error {
	return m.roll.change(ctx, func(s *cluster.State) (cluster.Change, *record.Refusal) {
		return cluster.ReplaceNode(s, dead, with, m.peers.Reaches)
	})
}

// DrainNode makes a node hand over all logs that it leads and gives it none; with undo it ends
// this. It returns when that has been decided; ClusterStatus shows when the node may be stopped.
func (m *ClusterAdmin) DrainNode(ctx context.Context, _ verbs.Caller, name string, undo bool) error {
	return m.roll.change(ctx, func(s *cluster.State) (cluster.Change, *record.Refusal) { return cluster.Drain(s, name, undo) })
}

// SetDefaultRule sets the placement rule of logs whose names begin with a prefix and that have no
// rule themselves. An empty rule removes it.
func (m *ClusterAdmin) SetDefaultRule(ctx context.Context, _ verbs.Caller, prefix string, rule cluster.Rule) error {
	return m.roll.change(ctx, func(s *cluster.State) (cluster.Change, *record.Refusal) { return cluster.SetRule(s, prefix, rule) })
}

// Rebalance spreads the replicas of all logs evenly over the reachable nodes: the leader of the
// catalog moves some at a time. It returns the number of replicas that are moving or still have to
// move.
func (m *ClusterAdmin) Rebalance(ctx context.Context, _ verbs.Caller) (left int, err error) {
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

// Members returns the nodes of the cluster as this node knows them, by id, and the id of this node,
// which is 0 before it is a member.
func (m *ClusterAdmin) Members() (members []Member, self uint64) {
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
