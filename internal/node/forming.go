package node

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

// formTime bounds how long the one that forms a cluster waits for the others.
const formTime = 15 * time.Second

// Formation is what became of InitCluster.
type Formation struct {
	ClusterID string `json:"cluster_id"`
	// Existed: the cluster was there before.
	Existed bool `json:"existed,omitempty"`
	// Missing are peers that are not members yet; they are admitted when they
	// come.
	Missing []string `json:"missing,omitempty"`
}

// formRequest asks the node that forms a cluster to do so.
type formRequest struct {
	By cluster.Candidate `json:"by"`
}

func (n *Node) candidate() cluster.Candidate {
	return cluster.Candidate{
		Name: n.options.Name, Cluster: n.me.Load().ClusterID, Peers: slices.Sorted(maps.Keys(n.options.Peers)),
	}
}

// InitCluster forms the cluster of this node and those named in its Peers. It
// may be asked of any of them, of several at once, and again: there is one
// cluster at the end. Only the peer with the lowest name forms it, see
// cluster.FormerOf; the others pass the call on.
func (n *Node) InitCluster(ctx context.Context, _ Caller) (Formation, error) {
	if me := n.me.Load(); me.member() {
		return Formation{ClusterID: me.ClusterID, Existed: true}, nil
	}
	me := n.candidate()
	former, refusal := cluster.FormerOf(me)
	if refusal != nil {
		return Formation{}, refusal
	}
	if former == me.Name {
		return n.form(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*formTime)
	defer cancel()
	var formed Formation
	err := n.askAddress(ctx, n.options.Peers[former], askForm, formRequest{By: me}, &formed)
	return formed, passed(err, former, n.options.Peers[former])
}

// passed is the error of a call that was passed on to the node that forms.
func passed(err error, former, address string) error {
	var refusal *record.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, peer.ErrConnectionLost), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return record.Refuse(record.OutcomeUnknown, "node %q, which forms the cluster, did not answer in time; it may have formed it: try again", former)
	}
	return record.Refuse(record.Busy, "node %q forms the cluster, since its name is the lowest in --peers, and does not answer at %s: start it. %v", former, address, err)
}

// formFor is form for another peer.
func (n *Node) formFor(ctx context.Context, q formRequest) (Formation, error) {
	me := n.candidate()
	if me.Cluster != "" {
		return Formation{ClusterID: me.Cluster, Existed: true}, nil
	}
	if refusal := cluster.MayForm(me, q.By.Name, q.By); refusal != nil {
		return Formation{}, refusal
	}
	if former, refusal := cluster.FormerOf(me); refusal != nil {
		return Formation{}, refusal
	} else if former != me.Name {
		return Formation{}, record.Refuse(record.Invalid, "node %q does not form the cluster, %q does", me.Name, former)
	}
	return n.form(ctx)
}

// form forms the cluster unless it is there, and waits for the others.
func (n *Node) form(ctx context.Context) (Formation, error) {
	// One at a time: what the others say of themselves must hold until then.
	select {
	case n.forming <- struct{}{}:
	case <-ctx.Done():
		return Formation{}, record.Refuse(record.Busy, "this node is forming the cluster: ask again")
	}
	defer func() { <-n.forming }()
	existed := n.me.Load().member()
	if !existed {
		if err := n.askPeers(ctx); err != nil {
			return Formation{}, err
		}
		if err := n.formHere(); err != nil {
			return Formation{}, err
		}
		n.tellPeers(ctx)
	}
	formed := Formation{ClusterID: n.me.Load().ClusterID, Existed: existed}
	formed.Missing = n.awaitMembers(ctx, n.candidate().Peers)
	return formed, nil
}

// formHere makes this node the first of a new cluster.
func (n *Node) formHere() error {
	n.changing.Lock()
	if n.closed || n.me.Load().member() {
		n.changing.Unlock()
		return record.Refuse(record.Busy, "this node has joined a cluster meanwhile, or is shutting down")
	}
	err := n.formAlone()
	n.changing.Unlock()
	if err != nil {
		return err
	}
	return n.begin()
}

// askPeers asks all peers whether they agree to be in a cluster with this one.
func (n *Node) askPeers(ctx context.Context) error {
	me := n.candidate()
	for name, address := range n.options.Peers {
		if name == me.Name {
			continue
		}
		ask, cancel := context.WithTimeout(ctx, askTime)
		var other cluster.Candidate
		err := n.askAddress(ask, address, askWho, struct{}{}, &other)
		cancel()
		if err != nil {
			return record.Refuse(record.Busy, "no cluster is formed yet: node %q does not answer at %s: start it. %v", name, address, err)
		}
		if refusal := cluster.MayForm(me, name, other); refusal != nil {
			return refusal
		}
	}
	return nil
}

// tellPeers has those that wait ask at once whether they are members.
func (n *Node) tellPeers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var telling sync.WaitGroup
	for name, address := range n.options.Peers {
		if name == n.options.Name {
			continue
		}
		telling.Go(func() {
			if err := n.askAddress(ctx, address, askInvite, invitation{Name: name}, nil); err != nil {
				n.logger.Debug("a peer was not told that its cluster is formed", "peer", name, "error", err) // it asks by itself
			}
		})
	}
	telling.Wait()
}

// formAlone makes a new data directory the first node of a new cluster.
func (n *Node) formAlone() error {
	id := identity{
		Format: formatVersion, ClusterID: rand.Text(), NodeID: 1, Name: n.options.Name,
		CatalogReplica: 1, CatalogVoters: []uint64{1},
	}
	return n.settleDown(id)
}

// awaitMembers waits until nodes are members and the catalog has the voters that
// it should have. It returns the names of those that have not come in time.
func (n *Node) awaitMembers(ctx context.Context, names []string) (missing []string) {
	ctx, cancel := context.WithTimeout(ctx, formTime)
	defer cancel()
	c := n.catalog.Load()
	view := cluster.View{Alive: n.reaches, Lost: func(uint64) bool { return false }}
	for {
		state := c.shown.Load()
		connected := true
		missing = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			node, member := state.Named(name)
			connected = connected && n.reaches(node.ID)
			return member
		})
		voters, _ := state.CatalogMembers()
		settled := connected && len(state.Due(view)) == 0 && len(c.host().replica.Status().Voters) == len(voters)
		if len(missing) == 0 && settled {
			return nil
		}
		if pause(ctx, shapeSoon); ctx.Err() != nil {
			return missing
		}
	}
}
