package node

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

// Who is admitted is decided by cluster.State.Admit; here is who asks and answers.

const (
	// announceTime is for how long a node that was added may take to come.
	announceTime = time.Hour
	// MaxTokenTime is the longest lifetime of a token.
	MaxTokenTime = 30 * 24 * time.Hour
)

// joinAnswer is all that a node needs to begin.
type joinAnswer struct {
	ClusterID      string        `json:"cluster_id"`
	NodeID         uint64        `json:"node_id"`
	CatalogReplica uint64        `json:"catalog_replica"`
	CatalogVoters  []uint64      `json:"catalog_voters"`
	Nodes          []catalogNode `json:"nodes"`
	// Fresh: CatalogReplica was given by this answer for the first time.
	Fresh bool `json:"fresh,omitempty"`
}

// takeIn admits a node that asks, if it is expected.
func (n *Node) takeIn(ctx context.Context, q cluster.JoinRequest) (joinAnswer, error) {
	c := n.catalog.Load()
	if c == nil {
		return joinAnswer{}, n.notMember()
	}
	// One that is not expected asks again and again: it must not cost the others
	// a question each time.
	if _, _, refusal := c.shown.Load().Admit(q, n.now().UnixMilli()); refusal != nil {
		return joinAnswer{}, refusal
	}
	me := n.me.Load()
	a := joinAnswer{ClusterID: me.ClusterID, CatalogVoters: me.CatalogVoters}
	err := c.change(ctx, func(s *catalogState) (catalogChange, error) {
		if _, begun := s.Nodes[me.NodeID]; !begun {
			return catalogChange{}, n.notMember() // the newcomer would not know whom to talk to
		}
		node, change, refusal := s.Admit(q, n.now().UnixMilli())
		if refusal != nil {
			return catalogChange{}, refusal
		}
		a.NodeID, a.CatalogReplica = node.ID, node.Catalog
		return change, nil
	})
	a.Nodes = c.shown.Load().Members()
	return a, err
}

// introduce enters this node in the catalog if it is not there, or under an
// address that it had before. The one that has formed the cluster lets its peers
// in with the same change.
func (n *Node) introduce(ctx context.Context) error {
	me := n.me.Load()
	c := n.catalog.Load()
	node := catalogNode{ID: me.NodeID, Name: me.Name, Catalog: me.CatalogReplica, Address: n.options.GRPCAddress, Kafka: n.options.KafkaAddress}
	peers := slices.DeleteFunc(n.candidate().Peers, func(name string) bool { return name == me.Name })
	if change := c.shown.Load().Introduce(node, peers); change.Empty() {
		return nil
	}
	return c.change(ctx, func(s *catalogState) (catalogChange, error) { return s.Introduce(node, peers), nil })
}

// AddNode announces the node that waits at an address, tells it whom to ask, and
// returns when it is a member. It reports true if it was one before.
func (n *Node) AddNode(ctx context.Context, _ Caller, name, address string) (existed bool, err error) {
	c := n.catalog.Load()
	if c == nil {
		return false, n.notMember()
	}
	if node, member := c.shown.Load().Named(name); member && node.Address == address {
		return true, nil
	} else if member {
		return false, cluster.NameTaken(node)
	}
	var there cluster.Candidate
	if err := n.askAddress(ctx, address, askWho, struct{}{}, &there); err != nil {
		if refused := (*peer.RefusedError)(nil); errors.As(err, &refused) {
			return false, record.Refuse(record.Precondition, "the node at %s cannot be added: %v", address, refused)
		}
		return false, record.Refuse(record.Busy, "nothing was changed: no node answers at %s: start it with `strandline serve --node-name %s --join %s`. %v",
			address, name, n.options.GRPCAddress, err)
	}
	switch {
	case there.Name != name:
		return false, record.Refuse(record.Precondition, "the node at %s is called %q, not %q", address, there.Name, name)
	case there.Cluster != "":
		return false, record.Refuse(record.Precondition, "node %q belongs to cluster %s already", name, there.Cluster)
	}
	if err := n.announce(ctx, name); err != nil {
		return false, err
	}
	q := invitation{Name: name}
	for _, node := range c.shown.Load().Members() {
		q.Addresses = append(q.Addresses, node.Address)
	}
	// One that was told by its options whom to ask needs no invitation, and may be
	// a member by now, which it says.
	invited := n.askAddress(ctx, address, askInvite, q, nil)
	if len(n.awaitMembers(ctx, []string{name})) > 0 {
		return false, record.Refuse(record.OutcomeUnknown, "node %q is announced and is admitted when it asks, which it has not done yet: look with `strandline cluster status` (last answer of the node: %v)", name, invited)
	}
	return false, nil
}

// announce lets a node of a name join.
func (n *Node) announce(ctx context.Context, name string) error {
	return n.changeMembers(ctx, func(s *catalogState) (catalogChange, *record.Refusal) {
		now := n.now()
		if _, member := s.Named(name); member {
			return catalogChange{}, nil // between the look and now
		}
		return s.Announce(cluster.Announced{Name: name, Expires: now.Add(announceTime).UnixMilli()}, now.UnixMilli())
	})
}

// CreateToken makes a token with which one node, or any number, can join for a
// while. The token is told here and kept nowhere.
func (n *Node) CreateToken(ctx context.Context, _ Caller, lifetime time.Duration, reusable bool) (token string, expires time.Time, err error) {
	if lifetime < time.Second || lifetime > MaxTokenTime {
		return "", expires, record.Refuse(record.Invalid, "a token that lives for %v was asked for: between 1s and %d days", lifetime, MaxTokenTime/(24*time.Hour))
	}
	token, expires = rand.Text(), n.now().Add(lifetime)
	kept := cluster.Token{Hash: cluster.HashToken(token), Expires: expires.UnixMilli(), Reusable: reusable}
	err = n.changeMembers(ctx, func(s *catalogState) (catalogChange, *record.Refusal) {
		return s.AddToken(kept, n.now().UnixMilli())
	})
	return token, expires, err
}
